# The libraries of others, from the system or built here from pinned sources:
#
#   PkgConfig::SODIUM, PkgConfig::HWLOC, PkgConfig::EXPAT, HORING_VERBS_HEADERS, and for programs CLI11 and nlohmann_json
#
# Built here they are static and stay inside libhoring; with ON, so does the C++ library, and only the C library is needed at run
# time.
set(HORING_BUNDLE_DEPS OFF CACHE STRING
  "Build hwloc, libsodium and expat, and take the headers of others, from pinned sources: OFF, AUTO (what is missing here) or ON")
set_property(CACHE HORING_BUNDLE_DEPS PROPERTY STRINGS OFF AUTO ON)
set(HORING_SOURCES "" CACHE PATH "A folder with the archives of pinned sources, for machines without a network")
if(NOT HORING_SOURCES)  # whichever configuration of this tree first has it in its environment
  set_property(CACHE HORING_SOURCES PROPERTY VALUE "$ENV{HORING_SOURCES}")
endif()

set(HORING_BUNDLED "" CACHE INTERNAL "The dependencies that are built here")
if(NOT HORING_BUNDLE_DEPS STREQUAL "OFF")
  include(HoringBundle)
endif()
if(HORING_BUNDLE_DEPS STREQUAL "ON")  # what is built shall run elsewhere: an older C++ library there lacks what the compiler's has
  # What nobody uses of it goes, and with it the need for a newer C library.
  add_link_options(-static-libstdc++ -Wl,--gc-sections)
endif()

find_package(PkgConfig QUIET)

# horing_system_library(NAME MODULE): PkgConfig::NAME from the system.
function(horing_system_library name module)
  if(PKG_CONFIG_FOUND AND NOT HORING_BUNDLE_DEPS STREQUAL "ON")
    pkg_check_modules(${name} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(TARGET PkgConfig::${name})
    return()
  elseif(HORING_BUNDLE_DEPS STREQUAL "OFF")
    message(FATAL_ERROR "There is no ${module} that pkg-config finds: ./tools/dev install-packages installs it, and "
      "-DHORING_BUNDLE_DEPS=AUTO builds it from pinned sources")
  endif()
  cmake_language(CALL horing_bundle_${name})
  set_property(CACHE HORING_BUNDLED APPEND PROPERTY VALUE ${name})
endfunction()

horing_system_library(SODIUM libsodium)
horing_system_library(HWLOC hwloc>=2.9)
horing_system_library(EXPAT expat)

# Headers only: the library is found at run time.
find_path(HORING_VERBS_HEADERS infiniband/verbs.h)
if(NOT HORING_BUNDLE_DEPS STREQUAL "OFF" AND NOT HORING_VERBS_HEADERS)
  horing_bundle_verbs_headers()
elseif(NOT HORING_VERBS_HEADERS)
  message(FATAL_ERROR "There is no infiniband/verbs.h: install libibverbs-dev, or set HORING_BUNDLE_DEPS=AUTO")
endif()

if(NOT HORING_BUNDLE_DEPS STREQUAL "OFF")
  find_package(CLI11 QUIET)
  find_package(nlohmann_json QUIET)
  horing_bundle_headers_of_programs()
endif()
