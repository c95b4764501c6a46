# A module is one folder of src/penstock: its sources, its tests, what it links. Nothing is global.

# penstock_add_module(name SOURCES a.cc ... [LINKS privately linked targets])
# The module's objects become part of the shared library `penstock`.
function(penstock_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_library(penstock_${name} OBJECT ${arg_SOURCES})
  target_include_directories(penstock_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(penstock_${name} PRIVATE ${arg_LINKS})
  target_link_libraries(penstock PRIVATE penstock_${name} ${arg_LINKS})
endfunction()

# penstock_add_tests(name SOURCES a_test.cc ... [LINKS targets] [LABELS concurrency|...; fast if none] [DEFINITIONS ...])
# One executable of GoogleTest cases, `<name>_tests`; every case is a ctest of its own.
function(penstock_add_tests name)
  if(NOT PENSTOCK_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS;LABELS;DEFINITIONS")
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  add_executable(${name}_tests ${arg_SOURCES})
  target_include_directories(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name}_tests PRIVATE penstock GTest::gmock_main ${arg_LINKS})
  target_compile_definitions(${name}_tests PRIVATE ${arg_DEFINITIONS})
  gtest_discover_tests(${name}_tests DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 300)
endfunction()
