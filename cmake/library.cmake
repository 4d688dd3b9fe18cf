# libtandem.so: the C interface of include/tandem/tandem.h, whose functions are all that can be seen of it.
set(header ${PROJECT_SOURCE_DIR}/include/tandem/tandem.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
file(STRINGS ${header} functions REGEX "^TANDEM_API ")
list(TRANSFORM functions REPLACE ".*[ *](tandem_[a-z_]+)\\(.*" "    \\1")
list(JOIN functions ";\n" functions)
set(script ${CMAKE_BINARY_DIR}/libtandem.map)
file(CONFIGURE OUTPUT ${script} CONTENT "TANDEM_0 {\n  global:\n${functions};\n  local:\n    *;\n};\n" @ONLY)

add_library(libtandem SHARED $<TARGET_OBJECTS:tandem_lib>)
set_target_properties(libtandem PROPERTIES OUTPUT_NAME tandem EXPORT_NAME tandem VERSION ${PROJECT_VERSION} SOVERSION 0
  LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} LINK_DEPENDS ${script})
target_link_libraries(libtandem PRIVATE tandem_user tandem_engine)
target_link_options(libtandem PRIVATE -Wl,--version-script=${script} -Wl,--no-undefined -Wl,--as-needed)
target_include_directories(libtandem INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(TANDEM_MODULES)
  add_dependencies(libtandem ${TANDEM_MODULES})
endif()
