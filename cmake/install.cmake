# What `make install` and the packages put where (GNUInstallDirs): program, manual, completions, unit.
include(GNUInstallDirs)
set(TANDEM_SYSTEMD_DIR lib/systemd/system CACHE PATH "Where units of systemd go, below the prefix")
set(TANDEM_UDEV_DIR lib/udev/rules.d CACHE PATH "Where rules of udev go, below the prefix")
set(TANDEM_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE PATH "Where completions of zsh go, below the prefix")

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

install(TARGETS tandem RUNTIME COMPONENT program)
install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${completions}/tandem DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${completions}/_tandem DESTINATION ${TANDEM_ZSH_DIR} COMPONENT program)
install(FILES ${completions}/tandem.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
configure_file(packaging/tandem.service.in ${CMAKE_BINARY_DIR}/tandem.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tandem.service DESTINATION ${TANDEM_SYSTEMD_DIR} COMPONENT program)
install(FILES packaging/60-tandem-accel.rules DESTINATION ${TANDEM_UDEV_DIR} COMPONENT program)
