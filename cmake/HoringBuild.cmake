# Compiler settings and the functions that every CMakeLists.txt here uses.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(HORING_CCACHE ccache)
if(HORING_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HORING_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${HORING_CCACHE})
endif()

set(HORING_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: address,undefined or thread")
option(HORING_FUZZ "Build the fuzz targets for libFuzzer, too (clang)" OFF)
option(HORING_WERROR "Treat warnings as errors, if the compiler is g++ 12 or clang 14, as CI's are; the presets do" OFF)
# Other compilers warn of other things, some of them wrongly: no reason to stop a user's build. Nor is a library's update that deprecates
# a function, as Expat 2.9 did.
set(HORING_ERRORS)
if(HORING_WERROR AND "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" MATCHES "^(GNU 12|Clang 14)\\.")
  set(HORING_ERRORS -Werror -Wno-error=deprecated-declarations)
  if(NOT HORING_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 sees these in strings whose templates come precompiled (see horing_precompile), where there are none.
    list(APPEND HORING_ERRORS -Wno-error=array-bounds -Wno-error=stringop-overread)
  endif()
endif()

add_library(horing_flags INTERFACE)
# -fno-gnu-unique: unique symbols cannot be made local, so statics of inline functions would leave libhoring.a.
# -Wno-restrict: g++ 12 sees overlaps in "text" + std::string that are not there (its bug 105651).
# -Wno-stringop-overflow: the same of copies into a std::vector that has just grown.
# -fmacro-prefix-map: messages name files as the source tree does, wherever it was built.
# -ffp-contract=off: results must not depend on whether the compiler finds a fused multiply-add.
target_compile_options(horing_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers
  -fvisibility=hidden -ffp-contract=off -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique$<SEMICOLON>-Wno-restrict$<SEMICOLON>-Wno-stringop-overflow> ${HORING_ERRORS})
target_include_directories(horing_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
find_package(Threads REQUIRED)
target_link_libraries(horing_flags INTERFACE Threads::Threads)
# Every object of a sanitized program has to be: the test programs link horing_sanitizer even where they need no other flag.
add_library(horing_sanitizer INTERFACE)
target_link_libraries(horing_flags INTERFACE horing_sanitizer)
if(HORING_SANITIZE)
  # enum: a caller in C may pass any number; the C API checks it. vptr: its runtime needs a descriptor, and tests take all of them.
  # function: drivers that are looked up at run time have types of their own for what they are passed.
  target_compile_options(horing_sanitizer INTERFACE -fsanitize=${HORING_SANITIZE} -fno-sanitize=enum -fno-sanitize=vptr
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function> -fno-omit-frame-pointer -fno-sanitize-recover=all
    # The cases themselves are not what is looked at, and compile in two thirds of the time so. Reports name their functions, not lines.
    "$<$<BOOL:$<TARGET_PROPERTY:HORING_IS_TEST>>:-fno-sanitize=undefined;-g0>")
  target_link_options(horing_sanitizer INTERFACE -fsanitize=${HORING_SANITIZE})
endif()

# For the folder that says so, and those below it: under a sanitizer, which most of the time waits for other ranks, it compiles in a
# third of the time so.
macro(horing_needs_no_speed)
  horing_optimise(-O0)
endmacro()

# For a folder below such a one, of tests that compute.
macro(horing_needs_speed)
  horing_optimise(-O1)
endmacro()

# In place of what the folder above says: CMake drops the second of equal options, and so of -O0 -O1 -O0 the one that is meant.
macro(horing_optimise level)
  if(HORING_SANITIZE)
    get_property(horing_options DIRECTORY PROPERTY COMPILE_OPTIONS)
    list(REMOVE_ITEM horing_options -O0 -O1)
    set_property(DIRECTORY PROPERTY COMPILE_OPTIONS ${horing_options} ${level})
  endif()
endmacro()

# For files that read options or write reports, once in a run: the templates of CLI11 and nlohmann/json take twice as long at -O3.
function(horing_quick_to_compile)
  # Nor can the C library check what is not optimised.
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O0 -U_FORTIFY_SOURCE)
endfunction()

# For files of a folder that needs no speed in which tests spend their time.
function(horing_quick_to_run)
  if(HORING_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O1)
  endif()
endfunction()

# horing_precompile(TARGET KIND HEADERS...): where no ccache keeps objects for the next build, as in CI, what most files include is
# parsed once for all targets of a KIND and folder's options, which have the same flags; the build takes a third less. Other builds
# do not, and see to it that files include what they use.
set(HORING_PRECOMPILED <algorithm> <array> <atomic> <chrono> <condition_variable> <cstring> <deque> <functional> <map> <memory> <mutex>
  <optional> <set> <span> <sstream> <string> <string_view> <thread> <vector>)
function(horing_precompile target kind)
  if(NOT kind MATCHES "layer$")
    set_property(TARGET ${target} PROPERTY HORING_IS_TEST ON)
  endif()
  if(HORING_CCACHE)
    return()
  endif()
  get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS)
  string(MAKE_C_IDENTIFIER "HORING_PRECOMPILED_${kind}${options}" same_flags)
  get_property(first GLOBAL PROPERTY ${same_flags})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY ${same_flags} ${target})
  endif()
endfunction()

# Where no ccache keeps objects, sixteen files of a target are compiled as one, too: what they all include is parsed, and what they
# instantiate is generated, once. Files with options of their own stay alone (CMake sees to that).
if(NOT HORING_CCACHE)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
endif()

# For files that name in an anonymous namespace what others of their target name, too, and for those in C, which would want a
# precompiled header of C: compiled alone in such a build as well.
function(horing_compile_alone)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# One layer of src/: horing_layer(NAME SOURCES ... USES layer ... [LIBRARIES ...] [UNFUZZED]).
# UNFUZZED: no fuzz target reaches it, so its branches are not reported to the fuzzer. To report them costs tests in the same build
# a tenth of their time and more.
# USES may only name layers below; tests/layers checks that the includes agree.
function(horing_layer name)
  cmake_parse_arguments(ARG "UNFUZZED" "" "SOURCES;USES;LIBRARIES" ${ARGN})
  add_library(horing_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(horing_${name} PUBLIC horing_flags ${ARG_LIBRARIES})
  set(kind layer)
  if(HORING_FUZZ AND NOT ARG_UNFUZZED)
    set(kind fuzzed_layer)
    target_compile_options(horing_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  horing_precompile(horing_${name} ${kind} ${HORING_PRECOMPILED})
  foreach(layer ${ARG_USES})
    target_link_libraries(horing_${name} PUBLIC horing_${layer})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY HORING_LAYERS horing_${name})
endfunction()

# One program for users, which HoringInstall installs: horing_program(NAME SOURCES ... LIBRARIES ...).
function(horing_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY HORING_PROGRAMS ${name})
endfunction()

# One program of GoogleTest cases: horing_test(NAME SOURCES ... USES layer ... [LABELS unit|integration ...]).
function(horing_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;USES;LIBRARIES;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(HORING_SANITIZE)
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")  # what ends in one minute takes three, and six where others have the cores
  endif()
  get_property(left_out GLOBAL PROPERTY HORING_LEFT_OUT_HERE)  # tests/sanitizers.cmake
  if(name IN_LIST left_out)
    set(exclude EXCLUDE_FROM_ALL)
  endif()
  add_executable(test_${name} ${exclude} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE horing_flags ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main)
  foreach(layer ${ARG_USES})
    target_link_libraries(test_${name} PRIVATE horing_${layer})
  endforeach()
  if(NOT exclude)  # others wait for whom they share it with
    horing_precompile(test_${name} test ${HORING_PRECOMPILED} <gtest/gtest.h>)
  endif()
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "HORING_CACHE_DIR=off;${ARG_ENVIRONMENT}")  # what a user measured decides no test
  if(exclude)
    set_tests_properties(${name} PROPERTIES DISABLED ON)
  endif()
endfunction()

# Says of a test made before that it runs in the virtual machine with RDMA (`./tools/dev test --rdma`), and skips elsewhere.
function(horing_rdma_test name)
  set(seconds 180)
  if(HORING_SANITIZE)
    set(seconds 540)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS rdma TIMEOUT ${seconds} RUN_SERIAL ON SKIP_REGULAR_EXPRESSION "no RDMA here")
endfunction()
