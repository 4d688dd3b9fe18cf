# What `make install` and the packages put where (GNUInstallDirs): program, manual, completions, unit.
include(GNUInstallDirs)
set(TANDEM_SYSTEMD_DIR lib/systemd/system CACHE STRING "Where units of systemd go, below the prefix")
set(TANDEM_UDEV_DIR lib/udev/rules.d CACHE STRING "Where rules of udev go, below the prefix")
set(TANDEM_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Where completions of zsh go, below the prefix")

# Manual and completions are written by the program itself, from what --help is made of.
set(manual ${CMAKE_BINARY_DIR}/manual)
set(completions ${CMAKE_BINARY_DIR}/completions)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/manual.made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual} ${completions}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manual} ${completions}
  COMMAND tandem manual ${manual}
  COMMAND tandem completion bash > ${completions}/tandem
  COMMAND tandem completion zsh > ${completions}/_tandem
  COMMAND tandem completion fish > ${completions}/tandem.fish
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/manual.made
  DEPENDS tandem
  COMMENT "Writing the manual")
add_custom_target(manual DEPENDS ${CMAKE_BINARY_DIR}/manual.made)
add_custom_target(installed DEPENDS tandem manual $<TARGET_NAME_IF_EXISTS:libtandem>)

# Modules lie in a folder of their own: base/module.h looks there. Each is a component by its name.
foreach(module ${TANDEM_MODULES})
  string(REPLACE tandem_module_ "" component ${module})
  install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tandem COMPONENT ${component})
endforeach()

if(TANDEM_LIBRARY)
  include(CMakePackageConfigHelpers)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
  configure_file(cmake/tandem-config.cmake.in ${CMAKE_BINARY_DIR}/tandem-config.cmake COPYONLY)
  # Relative to where the file lies, so that an unpacked tree can be used where it is.
  file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(packaging/tandem.pc.in ${CMAKE_BINARY_DIR}/tandem.pc @ONLY)
  install(TARGETS libtandem EXPORT tandem LIBRARY COMPONENT library NAMELINK_COMPONENT development)
  install(DIRECTORY include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  install(FILES ${CMAKE_BINARY_DIR}/tandem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
  install(EXPORT tandem FILE tandem-targets.cmake NAMESPACE tandem:: DESTINATION ${package} COMPONENT development)
  install(FILES ${CMAKE_BINARY_DIR}/tandem-config.cmake ${CMAKE_BINARY_DIR}/tandem-config-version.cmake
    DESTINATION ${package} COMPONENT development)
endif()

install(TARGETS tandem RUNTIME COMPONENT program)
install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${completions}/tandem DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${completions}/_tandem DESTINATION ${TANDEM_ZSH_DIR} COMPONENT program)
install(FILES ${completions}/tandem.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
configure_file(packaging/tandem.service.in ${CMAKE_BINARY_DIR}/tandem.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tandem.service DESTINATION ${TANDEM_SYSTEMD_DIR} COMPONENT program)
install(FILES packaging/60-tandem-accel.rules DESTINATION ${TANDEM_UDEV_DIR} COMPONENT program)
