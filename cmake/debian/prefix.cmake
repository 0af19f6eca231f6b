# Read by cpack for each kind of package, see HoringPackage.cmake.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /opt/horing)
endif()
