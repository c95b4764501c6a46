# Called by ctest with the variables that CMakeLists.txt lists.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output
                  ERROR_VARIABLE errors COMMAND_ECHO STDOUT)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "ended with '${code}'\n${output}\n${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(build_example name source)
  run(${CMAKE_COMMAND} -S ${source} -B ${WORK}/${name} -G ${GENERATOR}
      -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_COMPILER_LAUNCHER=${CXX_LAUNCHER}"
      "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
      -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
endfunction()

function(run_embed backend)
  run(${MAKE_PACKAGE} ${backend} ${WORK}/${backend}.zip)
  run(${WORK}/c/frames ${WORK}/${backend}.zip 20)
  string(FIND "${output}" "frame 19: y = -19" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected 20 frames of y by C, found\n${output}")
  endif()
  run(${WORK}/embed/embed ${WORK}/${backend}.zip 20)
  string(FIND "${output}" "frame 19: y = f32[4] -19" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected 20 frames of y, found\n${output}")
  endif()
endfunction()

# FRAMES that are no number end the example with the code of a wrong command line.
function(refuse_frames program)
  foreach(frames x -3 3x)
    execute_process(COMMAND ${program} ${WORK}/acme.zip ${frames} RESULT_VARIABLE code
                    OUTPUT_QUIET ERROR_VARIABLE errors)
    if(NOT code EQUAL 2 OR NOT errors MATCHES "FRAMES: expected a whole number.*found '${frames}'")
      message(FATAL_ERROR "${program} ${frames}: ended with '${code}'\n${errors}")
    endif()
  endforeach()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)  # Nothing may remember where it was installed.
build_example(headers ${SOURCE}/tests/install/headers)
build_example(embed ${SOURCE}/examples/embed)
build_example(c ${SOURCE}/examples/c)
build_example(plugin ${SOURCE}/examples/plugin)
build_example(function ${SOURCE}/examples/function)
set(ENV{PENSTOCK_PLUGIN_PATH} ${WORK}/plugin)
if(EXISTS ${WORK}/plugin/conformance_test)
  run(${WORK}/plugin/conformance_test)
endif()
run_embed(acme)
refuse_frames(${WORK}/embed/embed)
refuse_frames(${WORK}/c/frames)
unset(ENV{PENSTOCK_PLUGIN_PATH})
if(WITH_ONNXRUNTIME)
  if(NOT DEFINED ENV{VIRTUAL_ENV} AND EXISTS ${SOURCE}/.venv)
    set(ENV{VIRTUAL_ENV} ${SOURCE}/.venv)
  endif()
  run_embed(onnxruntime)
endif()
