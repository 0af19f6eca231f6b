# Dependencies from pinned sources (HoringDependencies.cmake says when). Each archive is known by its SHA-256; it is taken
# from HORING_SOURCES, or downloaded when the build is configured.
set(HORING_SOURCE_hwloc https://download.open-mpi.org/release/hwloc/v2.9/hwloc-2.9.0.tar.bz2
  b3fb1a43a14d8fbcd8e976de5ede2ea7ce1d768ed173adb33c7ceaaf098dc970)
set(HORING_SOURCE_libsodium https://github.com/jedisct1/libsodium/archive/1.0.18.tar.gz
  d59323c6b712a1519a5daf710b68f5e7fde57040845ffec53850911f10a5d4f4)
set(HORING_SOURCE_libexpat https://github.com/libexpat/libexpat/archive/R_2_5_0.tar.gz
  ab00ee05c7067fd10a35c5d2a4922ebba746ddd50ff83b79c828da17bbdf1757)
set(HORING_SOURCE_rdma-core https://github.com/linux-rdma/rdma-core/archive/v44.0.tar.gz
  4a2eec55b37ac25f25e7680a372f71c1781c23808542bd31fb68dc0448b8cba2)
set(HORING_SOURCE_CLI11 https://github.com/CLIUtils/CLI11/archive/v2.1.2.tar.gz
  26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb)
set(HORING_SOURCE_json https://github.com/nlohmann/json/archive/v3.11.2.tar.gz
  d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273)

# The folder of the sources of `name`, in `out`. An archive in HORING_SOURCES may have any name: its hash tells.
function(horing_source name out)
  list(GET HORING_SOURCE_${name} 0 url)
  list(GET HORING_SOURCE_${name} 1 hash)
  set(folder ${PROJECT_BINARY_DIR}/sources/${name})
  file(GLOB unpacked LIST_DIRECTORIES ON ${folder}/*)
  if(NOT unpacked)
    horing_find_archive(archive ${hash})
    if(NOT archive)
      set(archive ${PROJECT_BINARY_DIR}/sources/${name}.tar)
      message(STATUS "Downloading ${url}")
      file(DOWNLOAD ${url} ${archive} EXPECTED_HASH SHA256=${hash} TLS_VERIFY ON INACTIVITY_TIMEOUT 30 STATUS status)
      list(GET status 0 code)
      if(NOT code EQUAL 0)
        message(FATAL_ERROR "Downloading ${url} failed: ${status}. Install the development package of ${name} instead, or put "
          "the archive with SHA-256 ${hash} into a folder and set HORING_SOURCES to it")
      endif()
    endif()
    file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${folder})
    file(GLOB unpacked LIST_DIRECTORIES ON ${folder}/*)
  endif()
  set(${out} ${unpacked} PARENT_SCOPE)
endfunction()

function(horing_find_archive out hash)
  set(${out} "" PARENT_SCOPE)
  if(NOT HORING_SOURCES)
    return()
  endif()
  file(GLOB archives ${HORING_SOURCES}/*.tar.*)
  foreach(archive ${archives})
    file(SHA256 ${archive} actual)
    if(actual STREQUAL hash)
      set(${out} ${archive} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# A static library of C from others' sources, under the name that the system's has: warnings are theirs.
function(horing_bundled_library name)
  cmake_parse_arguments(ARG "" "LICENSE" "SOURCES;INCLUDES;PRIVATE_INCLUDES;DEFINITIONS" ${ARGN})
  string(TOLOWER ${name} lower)
  set(target horing_bundled_${lower})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} SYSTEM PUBLIC ${ARG_INCLUDES} PRIVATE ${ARG_PRIVATE_INCLUDES})
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINITIONS})
  target_compile_options(${target} PRIVATE -w -fvisibility=hidden)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
  add_library(PkgConfig::${name} ALIAS ${target})
  install(FILES ${ARG_LICENSE} DESTINATION licenses RENAME ${lower}.txt COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

function(horing_bundle_SODIUM)
  horing_source(libsodium source)
  set(include ${source}/src/libsodium/include)
  file(GLOB_RECURSE files ${source}/src/libsodium/*.c)
  file(COPY ${source}/builds/msvc/version.h DESTINATION ${include}/sodium)  # the one that needs no configure
  horing_bundled_library(SODIUM SOURCES ${files} LICENSE ${source}/LICENSE INCLUDES ${include} PRIVATE_INCLUDES ${include}/sodium
    DEFINITIONS CONFIGURED=1 SODIUM_STATIC=1 NATIVE_LITTLE_ENDIAN=1 HAVE_EXPLICIT_BZERO=1 HAVE_WEAK_SYMBOLS=1 HAVE_MMAP=1
      HAVE_MPROTECT=1 HAVE_MLOCK=1 HAVE_MADVISE=1 HAVE_POSIX_MEMALIGN=1 HAVE_NANOSLEEP=1 HAVE_PTHREAD=1 HAVE_TI_MODE=1
      HAVE_SYS_MMAN_H=1 HAVE_SYS_RANDOM_H=1 HAVE_SYS_PARAM_H=1 HAVE_GETRANDOM=1 HAVE_C_VARARRAYS=1 HAVE_ATOMIC_OPS=1)
endfunction()

function(horing_bundle_EXPAT)
  horing_source(libexpat source)
  set(lib ${source}/expat/lib)
  set(generated ${PROJECT_BINARY_DIR}/sources/expat)
  file(WRITE ${generated}/expat_config.h "/* expat's configuration is in its compile options. */\n")
  horing_bundled_library(EXPAT SOURCES ${lib}/xmlparse.c ${lib}/xmlrole.c ${lib}/xmltok.c LICENSE ${source}/expat/COPYING
    INCLUDES ${lib} PRIVATE_INCLUDES ${generated}
    DEFINITIONS XML_STATIC XML_NS XML_DTD XML_CONTEXT_BYTES=1024 BYTEORDER=1234 HAVE_MEMMOVE HAVE_GETRANDOM)
endfunction()

# What hwloc's own configure finds, and its sources without what opens further libraries: PCI devices come from /sys.
function(horing_bundle_HWLOC)
  horing_source(hwloc source)
  set(configured ${PROJECT_BINARY_DIR}/sources/hwloc-configured)
  if(NOT EXISTS ${configured}/hwloc/static-components.h)
    message(STATUS "Configuring hwloc")
    file(MAKE_DIRECTORY ${configured})
    execute_process(COMMAND ${CMAKE_COMMAND} -E env CC=${CMAKE_C_COMPILER} sh ${source}/configure --enable-static --disable-shared
      --disable-cairo --disable-libxml2 --disable-pci --disable-opencl --disable-cuda --disable-nvml --disable-rsmi
      --disable-levelzero --disable-gl --disable-libudev --disable-plugins
      WORKING_DIRECTORY ${configured} OUTPUT_FILE ${configured}/configure.log ERROR_FILE ${configured}/configure.log
      RESULT_VARIABLE code)
    if(NOT code EQUAL 0)
      message(FATAL_ERROR "hwloc cannot be configured: see ${configured}/configure.log")
    endif()
  endif()
  list(TRANSFORM HORING_FILES_OF_HWLOC REPLACE "(.+)" "${source}/hwloc/\\1.c" OUTPUT_VARIABLE files)
  horing_bundled_library(HWLOC SOURCES ${files} LICENSE ${source}/COPYING
    INCLUDES ${configured}/include ${source}/include PRIVATE_INCLUDES ${configured}/hwloc ${configured}
    DEFINITIONS HAVE_CONFIG_H HWLOC_INSIDE_LIBHWLOC RUNSTATEDIR="/var/run")
endfunction()
set(HORING_FILES_OF_HWLOC topology traversal distances memattrs cpukinds components bind bitmap pci-common diff shmem misc base64
  topology-noos topology-synthetic topology-xml topology-xml-nolibxml topology-linux topology-hardwired topology-x86)

function(horing_bundle_verbs_headers)
  horing_source(rdma-core source)
  set(headers ${PROJECT_BINARY_DIR}/sources/include/infiniband)
  file(COPY ${source}/libibverbs/verbs.h ${source}/libibverbs/verbs_api.h ${source}/kernel-headers/rdma/ib_user_ioctl_verbs.h
    DESTINATION ${headers})
  target_include_directories(horing_flags SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/sources/include)
endfunction()

# As targets that exist already: find_package(NAME) then has nothing to look for.
macro(horing_bundle_headers_of_programs)
  if(NOT TARGET CLI11::CLI11)
    horing_bundle_headers(CLI11 CLI11::CLI11 include)
  endif()
  if(NOT TARGET nlohmann_json::nlohmann_json)
    horing_bundle_headers(json nlohmann_json::nlohmann_json include nlohmann_json)
  endif()
endmacro()

function(horing_bundle_headers name target folder)
  horing_source(${name} source)
  add_library(horing_bundled_${name} INTERFACE)
  target_include_directories(horing_bundled_${name} SYSTEM INTERFACE ${source}/${folder})
  add_library(${target} ALIAS horing_bundled_${name})
  string(REGEX REPLACE "::.*" "" package ${target})
  file(WRITE ${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/${package}Config.cmake "# ${target} is made by HoringBundle.cmake\n")
endfunction()
