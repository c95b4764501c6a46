# A module is one folder of src/penstock: its sources, its tests, what it links. Nothing is global.

set(PENSTOCK_COMMON_HEADERS
    <algorithm> <chrono> <filesystem> <fstream> <functional> <map> <memory> <numeric> <optional> <random> <set> <span>
    <sstream> <string> <unordered_map> <unordered_set> <utility> <variant> <vector> <nlohmann/json.hpp>)

# penstock_precompile(target [AS kind] [LINKS libraries that the headers need] HEADERS <a> <b> ...)
# All targets of a kind (executable, object, plugin), compiled alike, share what the first one names;
# one without a kind has its own. Only with PENSTOCK_PRECOMPILE, which the presets of Clang set: GCC
# gains nothing by it. Without it each file must include what it uses.
function(penstock_precompile target)
  if(NOT PENSTOCK_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "AS" "LINKS;HEADERS")
  if(NOT arg_AS)
    penstock_write_no_times(${target})
    target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
    return()
  endif()
  get_target_property(optimized ${target} PENSTOCK_OPTIMIZED)
  set(owner precompiled_${arg_AS})
  if(optimized)
    set(owner precompiled_${optimized}_${arg_AS})
  endif()
  if(NOT TARGET ${owner})
    file(CONFIGURE OUTPUT ${owner}.cc CONTENT "")
    set(source EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${owner}.cc)
    if(arg_AS STREQUAL "executable")
      add_executable(${owner} ${source})  # Position-independent as the tests are.
    else()
      add_library(${owner} OBJECT ${source})
    endif()
    foreach(property CXX_VISIBILITY_PRESET VISIBILITY_INLINES_HIDDEN)
      get_target_property(value ${target} ${property})
      if(value)
        set_target_properties(${owner} PROPERTIES ${property} ${value})
      endif()
    endforeach()
    if(optimized)
      penstock_optimize(${owner} ${optimized})
    endif()
    penstock_write_no_times(${owner})
    target_link_libraries(${owner} PRIVATE ${arg_LINKS})
    target_precompile_headers(${owner} PRIVATE ${arg_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# penstock_write_no_times(target): Clang writes into precompiled headers when their files changed. Without
# these times ccache knows whatever uses them again, in a fresh clone too.
function(penstock_write_no_times target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
endfunction()

# penstock_install(component folder target ...): installs programs and plugins, which find Penstock's
# libraries from the folder they lie in. `penstock_installed` builds all that is installed.
add_custom_target(penstock_installed)
function(penstock_install component folder)
  file(RELATIVE_PATH libraries /${folder} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries}")
  add_dependencies(penstock_installed ${ARGN})
  install(TARGETS ${ARGN}
    RUNTIME DESTINATION ${folder} COMPONENT ${component}
    LIBRARY DESTINATION ${folder} COMPONENT ${component} NAMELINK_SKIP)
endfunction()

# penstock_optimize(target light|always): `light` is for code that mostly waits for what it calls, as
# optimising takes half of a build's time. `always` is for code whose tests compute for minutes where a
# preset does not optimise at all.
function(penstock_optimize target how)
  set_target_properties(${target} PROPERTIES PENSTOCK_OPTIMIZED ${how})
  if(how STREQUAL "light")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0> $<$<CONFIG:Release,RelWithDebInfo>:-Og>)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
  endif()
endfunction()

# penstock_add_module(name SOURCES a.cc ... [LINKS privately linked targets] [LIBRARY library]
#                     [LIGHTLY_OPTIMIZED | COMPUTES])
# The module's objects become part of the shared library, `penstock` unless another is named.
function(penstock_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LIGHTLY_OPTIMIZED;COMPUTES" "LIBRARY" "SOURCES;LINKS")
  if(NOT arg_LIBRARY)
    set(arg_LIBRARY penstock)
  endif()
  add_library(penstock_${name} OBJECT ${arg_SOURCES})
  target_include_directories(penstock_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(penstock_${name} PRIVATE ${arg_LINKS})
  target_link_libraries(${arg_LIBRARY} PRIVATE penstock_${name} ${arg_LINKS})
  if(arg_LIGHTLY_OPTIMIZED)
    penstock_optimize(penstock_${name} light)
  elseif(arg_COMPUTES)
    penstock_optimize(penstock_${name} always)
  endif()
  penstock_precompile(penstock_${name} AS object HEADERS ${PENSTOCK_COMMON_HEADERS})
endfunction()

# Under the address sanitizer a process takes longer to start than most cases to run.
set(PENSTOCK_WHOLE_TESTS OFF)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[^ ]*address")
  set(PENSTOCK_WHOLE_TESTS ON)
endif()

# penstock_discover_tests(target PROPERTIES ...): every case of GoogleTest is a ctest of its own; where
# PENSTOCK_WHOLE_TESTS, the whole executable is one. There what a case leaves behind shows in a later one, and
# the first finding ends the executable, so that the cases behind it are not run. A case alone: the executable's
# --gtest_filter.
function(penstock_discover_tests target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PROPERTIES")
  if(PENSTOCK_WHOLE_TESTS)
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES ${arg_PROPERTIES} TIMEOUT 2700)
  else()
    gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES ${arg_PROPERTIES})
  endif()
endfunction()

# penstock_add_tests(name SOURCES a_test.cc ... [LINKS targets] [LABELS concurrency|engine|...; fast if none]
#                    [DEFINITIONS ...] [APART] [COMPUTES] [LONGEST])
# One executable of GoogleTest cases, `<name>_tests`, found by penstock_discover_tests. The thread
# sanitizer runs those labelled concurrency, which the target `concurrency_tests` builds; `engineless_tests`
# builds those not labelled engine. APART: each file by a compiler run of its own, so that a change to
# one is compiled soon; builds with sanitizers compile them together. COMPUTES: it is slow where it is not optimised.
# LONGEST: it begins first, so that the other processors have something to do until it ends (where an
# executable is one ctest, too).
function(penstock_add_tests name)
  if(NOT PENSTOCK_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "APART;COMPUTES;LONGEST" "" "SOURCES;LINKS;LABELS;DEFINITIONS")
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  add_executable(${name}_tests ${arg_SOURCES})
  target_include_directories(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name}_tests PRIVATE penstock GTest::gmock_main ${arg_LINKS})
  target_compile_definitions(${name}_tests PRIVATE ${arg_DEFINITIONS})
  if(NOT arg_COMPUTES)
    penstock_optimize(${name}_tests light)
  endif()
  if(arg_APART AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set_target_properties(${name}_tests PROPERTIES UNITY_BUILD OFF)
  endif()
  penstock_precompile(${name}_tests AS executable LINKS GTest::gmock_main
                      HEADERS ${PENSTOCK_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  set(cost 0)
  if(arg_LONGEST)
    set(cost 1000)
  endif()
  penstock_discover_tests(${name}_tests PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 900 COST ${cost})
  add_dependencies(all_tests ${name}_tests)
  if("concurrency" IN_LIST arg_LABELS)
    add_dependencies(concurrency_tests ${name}_tests)
  endif()
  if(NOT "engine" IN_LIST arg_LABELS)
    add_dependencies(engineless_tests ${name}_tests)
  endif()
endfunction()
