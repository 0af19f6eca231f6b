#pragma once
// Some kernels of engine/cuda as the fake driver runs them, on threads of the host.
#include "fake_cuda/fake_kernels.h"

namespace horing::test {

// Kernels that are not compiled in end the program when they run: see emulated_kernels.cpp.
const fake::Kernels& emulatedKernels();

}  // namespace horing::test
