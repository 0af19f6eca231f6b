#include "engine/cuda/copy_kernel.h"
#include "engine/cuda/copy_run.h"
#include "engine/cuda/device_block.cuh"

// The name is kCopyKernel.
extern "C" __global__ void __launch_bounds__(horing::cuda::kCopyThreads)
    horing_copy(const __grid_constant__ horing::cuda::CopyCall call) {
  using namespace horing::cuda;
  __shared__ CopyShared shared;
  DeviceBlock<CopyShared, kCopyThreads> block(shared);
  CopyRun(call, static_cast<int32_t>(blockIdx.x), block).run();
}
