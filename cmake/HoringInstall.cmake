# What `cmake --install` puts where, and how others find it:
#
#   find_package(horing)        horing::horing, and horing::horing_static where libsodium, hwloc and expat are there to link
#   pkg-config --libs horing    with --static also what libhoring.a needs
#
#   include(HoringInstall)
#   horing_install()            once, after every target is made
#
# The tree may be moved as a whole: every path inside is relative to the file that names it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

function(horing_install_programs)
  file(RELATIVE_PATH to_libraries /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  get_property(programs GLOBAL PROPERTY HORING_PROGRAMS)
  foreach(program ${programs})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_libraries}")
    install(TARGETS ${program})
  endforeach()
endfunction()

# What the Python package has: one file of the library, since a wheel has no links, and the programs.
#
#   cmake --install build/release --component python --prefix python/src/horing
function(horing_install_for_python)
  get_property(programs GLOBAL PROPERTY HORING_PROGRAMS)
  add_custom_target(horing_python DEPENDS horing ${programs})
  install(FILES $<TARGET_FILE:horing> DESTINATION lib RENAME $<TARGET_SONAME_FILE_NAME:horing> COMPONENT python EXCLUDE_FROM_ALL
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  foreach(program ${programs})
    install(TARGETS ${program} RUNTIME DESTINATION bin COMPONENT python EXCLUDE_FROM_ALL)
  endforeach()
endfunction()

function(horing_install)
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/horing)
  install(TARGETS horing horing_nccl horing_nccl_audit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libhoring.a ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libnccl_static.a
    DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/horing ${PROJECT_SOURCE_DIR}/include/nccl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  # As in the sources, so that the links between them lead somewhere.
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    PATTERN site EXCLUDE PATTERN __pycache__ EXCLUDE)
  horing_install_programs()
  horing_install_for_python()

  # By hand, since install(EXPORT) wants to tell others of all that is linked inside the library.
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/horingConfig.cmake.in ${PROJECT_BINARY_DIR}/horingConfig.cmake
    INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  # Before 1.0 a minor version may change what programs see.
  set(compatibility SameMajorVersion)
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(compatibility SameMinorVersion)
  endif()
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/horingConfigVersion.cmake COMPATIBILITY ${compatibility})
  install(FILES ${PROJECT_BINARY_DIR}/horingConfig.cmake ${PROJECT_BINARY_DIR}/horingConfigVersion.cmake
    DESTINATION ${package_folder})

  file(RELATIVE_PATH HORING_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/horing.pc.in ${PROJECT_BINARY_DIR}/horing.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/horing.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
