# Whether kernels are built: HORING_CUDA=AUTO (if there is a toolkit), ON or OFF. Sets HORING_HAS_CUDA.
#
# Without a toolkit, and with OFF, nothing else of the build changes. The libraries need no driver and no library of CUDA: its
# runtime is linked in, and kernels that are not used are not loaded.
set(HORING_CUDA AUTO CACHE STRING "Build kernels for NVIDIA GPUs: AUTO, ON or OFF")
set_property(CACHE HORING_CUDA PROPERTY STRINGS AUTO ON OFF)
# PTX of the last one serves newer GPUs.
set(HORING_CUDA_ARCHITECTURES 80-real 90-real 100 CACHE STRING "What GPUs to build for; one alone takes half the time")

set(HORING_HAS_CUDA OFF)
if(HORING_CUDA STREQUAL "AUTO" AND HORING_SANITIZE)
  return()  # kernels cannot be sanitized; tests run the same code on the host
endif()
if(NOT HORING_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${HORING_CUDA_ARCHITECTURES})
    if(HORING_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${HORING_CCACHE})
    endif()
    enable_language(CUDA)
    set(HORING_HAS_CUDA ON)
    # CMake 3.25 does not know that nvcc has C++20.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
  elseif(HORING_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HORING_CUDA is ON and no CUDA compiler was found: set CMAKE_CUDA_COMPILER or CUDACXX to nvcc")
  endif()
endif()
