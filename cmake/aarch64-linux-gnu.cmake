# Cross compilation for 64-bit Arm: Debian's compiler, the libraries and headers of a Debian of that architecture, and qemu to run tests.
# The preset aarch64 uses it; `./tools/dev test --aarch64` makes the folder HORING_SYSROOT.
set(HORING_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot CACHE PATH "A Debian of 64-bit Arm")
get_filename_component(CMAKE_SYSROOT ${HORING_SYSROOT} ABSOLUTE)

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})
foreach(tool ld objcopy ar)  # of HoringLibrary.cmake
  string(TOUPPER HORING_${tool} variable)
  set(${variable} aarch64-linux-gnu-${tool} CACHE STRING "")
endforeach()

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
