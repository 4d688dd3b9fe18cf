# tandem_page(FILE): the page of web/, built by npm and Vite where they are, else a notice; FILE embeds it as TANDEM_PAGE.
option(TANDEM_WEB "Build the server's page when npm and Node 20.19 or newer are there; else it is a notice" ON)

function(tandem_page file)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/page)
  set(notice "")
  if(TANDEM_WEB)
    find_program(NPM npm)
    find_program(NODE node)
    set(node_version "")
    if(NODE)
      execute_process(COMMAND ${NODE} --version OUTPUT_VARIABLE node_version OUTPUT_STRIP_TRAILING_WHITESPACE)
      string(REPLACE "v" "" node_version "${node_version}")
    endif()
    if(NOT NPM OR node_version VERSION_LESS 20.19)
      message(STATUS "No npm with Node 20.19 or newer: the server's page will be a notice")
      set(notice --notice)
    endif()
  else()
    set(notice --notice)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/src/* ${PROJECT_SOURCE_DIR}/web/public/*)
  file(GLOB settings CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*.json ${PROJECT_SOURCE_DIR}/web/*.ts
       ${PROJECT_SOURCE_DIR}/web/*.html ${PROJECT_SOURCE_DIR}/web/build.sh)
  # The stamp is left out when npm cannot install (no network): the page is then a notice, and the next build tries again.
  add_custom_command(
    OUTPUT ${out}.built
    BYPRODUCTS ${out}/index.html ${out}/app.js ${out}/app.css ${out}/icon.svg
    COMMAND ${PROJECT_SOURCE_DIR}/web/build.sh ${notice} ${out}
    DEPENDS ${sources} ${settings}
    COMMENT "Building the page"
    VERBATIM)
  set_source_files_properties(${file} PROPERTIES COMPILE_DEFINITIONS TANDEM_PAGE="${out}"
    OBJECT_DEPENDS "${out}.built;${out}/index.html;${out}/app.js;${out}/app.css;${out}/icon.svg")
endfunction()
