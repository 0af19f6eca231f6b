# What `cpack` makes of the build, in its folder: horing-VERSION-Linux.tar.gz and horing_VERSION_ARCHITECTURE.deb.
#
#   cpack --config build/release/CPackConfig.cmake -B build/packages
#
# The .deb installs below /opt/horing: libnccl.so.2 stands beside that of NVIDIA's package then. Its documents are in
# /usr/share/doc/horing. The archive may lie anywhere.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_VENDOR horing)
set(CPACK_PACKAGE_CONTACT "the authors of horing <horing@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Collective communication between the ranks of a job")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES OFF)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/debian/prefix.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/documents.cmake)
set(CPACK_COMPONENTS_ALL Unspecified)  # not what the Python package has
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libsodium23, libhwloc15, libexpat1")
# Whose symbols have versions: those of the machine that builds, or newer.
foreach(package libstdc++6 libc6)
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${package} OUTPUT_VARIABLE version ERROR_QUIET)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", ${package}")
  if(version MATCHES "^([0-9]+[.][0-9]+)")
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS " (>= ${CMAKE_MATCH_1})")
  endif()
endforeach()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "iproute2")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/postrm)
include(CPack)
