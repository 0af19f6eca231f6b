# The two libraries that users link: libhoring.so and libhoring.a, from every layer made by horing_layer().
#
#   include(HoringLibrary)
#   horing_library()          once, in src/capi, after its horing_layer()
#
# makes   horing            the shared library           (alias horing::shared)
#         horing_archive    what a program links for the static one (alias horing::static); HORING_MERGED: its one object
# The name of the shared one, and the version of its symbols, change when its interface may: libhoring.so.0.1, HORING_0.1; from 1.0 on
# libhoring.so.1, HORING_1. So a program that was linked to another one does not start.
#
# Only horing* symbols leave either. Hidden visibility alone does not do that: templates of the standard library are
# instantiated with default visibility, hence the version script, and an archive knows no visibility between its
# members, hence one merged object whose other symbols are made local.

# Every library that the layers need from outside, in `out`.
function(horing_outside_libraries out layers)
  set(found)
  foreach(layer ${layers})
    get_target_property(libraries ${layer} INTERFACE_LINK_LIBRARIES)
    foreach(library ${libraries})
      if(NOT library MATCHES "^horing_")
        list(APPEND found ${library})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# GNU binutils whatever the compiler: lld has no --force-group-allocation.
find_program(HORING_LD NAMES ld.bfd ld REQUIRED)
find_program(HORING_OBJCOPY NAMES objcopy REQUIRED)
find_program(HORING_AR NAMES ar REQUIRED)

function(horing_library)
  get_property(layers GLOBAL PROPERTY HORING_LAYERS)
  horing_outside_libraries(outside "${layers}")
  set(objects)
  foreach(layer ${layers})
    list(APPEND objects $<FILTER:$<TARGET_OBJECTS:${layer}>,EXCLUDE,\\.[pg]ch$>)  # a precompiled header is none
  endforeach()

  set(script ${CMAKE_CURRENT_BINARY_DIR}/horing.map)
  file(WRITE ${script}.new "HORING_${HORING_INTERFACE} { global: horing*; local: *; };\n")
  file(COPY_FILE ${script}.new ${script} ONLY_IF_DIFFERENT)
  add_library(horing SHARED ${objects})
  add_library(horing::shared ALIAS horing)
  # Program and library may both use a layer's code (a test that looks inside); each keeps its own copy.
  # dlclose does not unload it: threads of its own may be in it, such as one for each ID that nobody has used.
  target_link_options(horing PRIVATE -Wl,--version-script=${script} -Wl,--exclude-libs,ALL -Wl,-z,nodelete)
  target_link_libraries(horing PRIVATE horing_flags ${outside})
  target_include_directories(horing INTERFACE ${PROJECT_SOURCE_DIR}/include)
  # A sanitizer's runtime belongs to the program, not to a shared library.
  set(sanitizer $<TARGET_PROPERTY:horing_sanitizer,INTERFACE_LINK_OPTIONS>)
  target_link_options(horing INTERFACE ${sanitizer})
  set_target_properties(horing PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${script}
    VERSION ${PROJECT_VERSION} SOVERSION ${HORING_INTERFACE})

  # --force-group-allocation dissolves COMDAT groups: a local symbol in a group would vanish when the linker keeps the
  # same group of another object, and the link would fail.
  set(archive ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libhoring.a)
  set(merged ${CMAKE_CURRENT_BINARY_DIR}/horing.o)
  add_custom_command(OUTPUT ${archive}
    COMMAND ${HORING_LD} -r --force-group-allocation -o ${merged} ${objects}
    COMMAND ${HORING_OBJCOPY} --wildcard --keep-global-symbol=horing* ${merged}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${HORING_AR} qcs ${archive} ${merged}
    DEPENDS ${objects} ${layers}
    COMMENT "Merging the layers into libhoring.a"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(horing_archive_file ALL DEPENDS ${archive})
  add_library(horing_archive INTERFACE)
  add_library(horing::static ALIAS horing_archive)
  add_dependencies(horing_archive horing_archive_file)
  set_target_properties(horing_archive PROPERTIES HORING_MERGED ${merged})
  target_include_directories(horing_archive INTERFACE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(horing_archive INTERFACE ${archive} ${outside} stdc++ m ${CMAKE_DL_LIBS} rt)
  target_link_options(horing_archive INTERFACE ${sanitizer})
endfunction()
