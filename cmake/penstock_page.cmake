# The page of `penstock explain --html`: web/ bundled by esbuild, as C++ in the library.

set(PENSTOCK_WEB_MODULES "${PROJECT_SOURCE_DIR}/.prefix/web/node_modules" CACHE PATH
    "node_modules of web/package-lock.json")

# penstock_add_page(target): page_script() of the target is the bundle.
function(penstock_add_page target)
  file(GLOB esbuild "${PENSTOCK_WEB_MODULES}/@esbuild/*/bin/esbuild")
  if(NOT esbuild)
    message(FATAL_ERROR "esbuild was not found in ${PENSTOCK_WEB_MODULES}: run script/setup in ${PROJECT_SOURCE_DIR} "
      "once, which makes it in .prefix/, then this again (or name another folder in PENSTOCK_WEB_MODULES).")
  endif()
  set(web ${PROJECT_SOURCE_DIR}/web)
  file(GLOB sources CONFIGURE_DEPENDS ${web}/src/*)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/page.js)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/page_script.cc)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=${PENSTOCK_WEB_MODULES} ${esbuild} ${web}/src/main.js
      --bundle --minify --format=iife --target=es2022 --loader:.css=text --log-level=warning --outfile=${script}
    COMMAND ${CMAKE_COMMAND} -D IN=${script} -D OUT=${source} -P ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${sources} ${web}/package-lock.json ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    COMMENT "Bundling the page of web/" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
