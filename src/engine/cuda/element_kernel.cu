#include "engine/cuda/element_kernel.h"
#include "engine/cuda/element_run.h"

// The name is kElementKernel.
extern "C" __global__ void __launch_bounds__(horing::cuda::kElementThreads)
    horing_elements(const __grid_constant__ horing::cuda::ElementCall call) {
  using namespace horing::cuda;
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  ElementRun(call, thread, static_cast<uint64_t>(gridDim.x) * kElementThreads).run();
}
