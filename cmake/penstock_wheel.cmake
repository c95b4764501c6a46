# Where a wheel's build finds what the presets name: all of it is made by script/setup.
file(GLOB made_by_setup ${PROJECT_SOURCE_DIR}/.prefix/onnx-[0-9]*)
list(APPEND CMAKE_PREFIX_PATH ${made_by_setup})
file(GLOB headers ${PROJECT_SOURCE_DIR}/.prefix/onnxruntime-headers-*/include/onnxruntime)
if(headers AND NOT PENSTOCK_ORT_HEADERS)
  set(PENSTOCK_ORT_HEADERS ${headers} CACHE PATH "Folder of onnxruntime_c_api.h" FORCE)
endif()
if(NOT PENSTOCK_OPENVINO_HEADERS)
  set(PENSTOCK_OPENVINO_HEADERS ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/openvino/include
    CACHE STRING "Folder of openvino/c/openvino.h, * allowed" FORCE)
endif()
if(NOT PENSTOCK_ONEDNN_HEADERS)
  set(PENSTOCK_ONEDNN_HEADERS ${PROJECT_SOURCE_DIR}/.venv/include
    CACHE PATH "Folder of oneapi/dnnl/dnnl.h" FORCE)
endif()
find_program(PENSTOCK_CCACHE ccache)
if(PENSTOCK_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PENSTOCK_CCACHE})
endif()
