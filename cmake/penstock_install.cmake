# What `cmake --install` puts in place besides the plugins and the program: the library, its public
# headers (a module's other headers are its own business) and the CMake package.
include(CMakePackageConfigHelpers)

set(PENSTOCK_PUBLIC_HEADERS
  app/app.h app/bounds.h app/connect.h app/source.h
  backend/backend.h backend/registry.h
  base/error.h base/hash.h base/result.h base/tls_files.h base/version.h
  device/device.h device/topology.h
  follow/choice.h follow/idle.h follow/tuner.h
  frames/frame.h frames/random.h
  function/function.h function/penstock_function.h
  gateway/serving.h gateway/watching.h
  graph/graph.h graph/import.h graph/subgraph.h graph/writer.h
  host/options.h
  measure/hidden_rows.h measure/judge.h measure/jumps.h measure/reference.h measure/verify.h
  partition/batches.h partition/lanes.h partition/split.h
  pipeline/durations.h pipeline/frame.h pipeline/observation.h pipeline/paused_clock.h pipeline/pipeline.h pipeline/spans.h pipeline/stats.h
  plan/bound.h plan/package.h plan/plan.h plan/plan_json.h plan/stream_options.h
  ready/caller.h ready/ready.h ready/sheet.h
  serve/model.h serve/reloaded.h serve/request.h serve/server.h serve/server_options.h serve/statistics.h
  session/batch_choice.h session/identify.h session/load.h session/session.h session/verify.h
  tensor/compare.h tensor/dtype.h tensor/literal.h tensor/npy.h tensor/npz.h tensor/tensor.h)
list(TRANSFORM PENSTOCK_PUBLIC_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/src/penstock/)

# `#include <penstock.h>` is what a program in C writes.
target_sources(penstock PUBLIC
  FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${PENSTOCK_PUBLIC_HEADERS}
  FILE_SET c_interface TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src/penstock/c
  FILES ${PROJECT_SOURCE_DIR}/src/penstock/c/penstock.h)
set(link NAMELINK_COMPONENT dev)
if(SKBUILD)
  set(link NAMELINK_SKIP)
endif()
add_dependencies(penstock_installed penstock)
install(TARGETS penstock EXPORT PenstockTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library ${link}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
  FILE_SET c_interface DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
penstock_install(serving ${CMAKE_INSTALL_LIBDIR} penstock_client penstock_serving)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Penstock)
set(PENSTOCK_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/penstock/plugins)
install(DIRECTORY DESTINATION ${PENSTOCK_PLUGIN_DIR} COMPONENT library)
install(EXPORT PenstockTargets NAMESPACE Penstock:: DESTINATION ${package_folder} COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/PenstockConfig.cmake.in
  ${PROJECT_BINARY_DIR}/PenstockConfig.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS PENSTOCK_PLUGIN_DIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/PenstockConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/PenstockConfig.cmake
              ${PROJECT_BINARY_DIR}/PenstockConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT dev)
