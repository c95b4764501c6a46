# Debian packages by CPack, one for each component of the installation; script/package makes them.
include(GNUInstallDirs)

install(FILES ${PROJECT_SOURCE_DIR}/packaging/penstock-serve.service ${PROJECT_SOURCE_DIR}/packaging/penstock-worker.service
  DESTINATION lib/systemd/system COMPONENT serving)

foreach(pair "library libpenstock${PROJECT_VERSION_MAJOR}" "dev libpenstock-dev" "program penstock" "serving penstock-serving")
  separate_arguments(pair)
  list(POP_FRONT pair component package)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
    RENAME copyright COMPONENT ${component})
endforeach()

# What is packaged is built by `penstock_installed`: no tests, no benchmarks.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL library dev program serving)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "The maintainers of Penstock <maintainers@penstock.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(library libpenstock${PROJECT_VERSION_MAJOR})

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${PROJECT_DESCRIPTION}
The library, its backends, and what measures. Engines (ONNX Runtime, OpenVINO, oneDNN) are taken from
a Python environment or from the system, where they are there.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "python3-venv, penstock-serving")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libpenstock-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library} ${same}")
set(CPACK_COMPONENT_DEV_DESCRIPTION "${PROJECT_DESCRIPTION} (headers)
Headers for C++20 and C, and the CMake package Penstock.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME penstock)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${library} ${same}")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "penstock-serving ${same}")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${PROJECT_DESCRIPTION} (program)
The command penstock: splits, builds by measurement, verifies, compares and runs.")

set(CPACK_DEBIAN_SERVING_PACKAGE_NAME penstock-serving)
set(CPACK_DEBIAN_SERVING_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SERVING_PACKAGE_DEPENDS "${library} ${same}, penstock ${same}")
set(CPACK_COMPONENT_SERVING_DESCRIPTION "${PROJECT_DESCRIPTION} (serving)
What the commands serve and worker, and stages on other machines, need besides, gRPC among it; and units for
systemd, which start nothing until they are configured and enabled.")

include(CPack)
