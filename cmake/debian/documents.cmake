# Run by cpack before it packs: in the .deb the guide and the examples lie where Debian's users look for them, and the licence has the
# name that Debian gives it.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(documents ${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc)
  file(MAKE_DIRECTORY ${documents})
  file(RENAME ${CPACK_TEMPORARY_DIRECTORY}/opt/horing/share/doc/horing ${documents}/horing)
  file(RENAME ${documents}/horing/LICENSE ${documents}/horing/copyright)
  file(REMOVE_RECURSE ${CPACK_TEMPORARY_DIRECTORY}/opt/horing/share)
endif()
