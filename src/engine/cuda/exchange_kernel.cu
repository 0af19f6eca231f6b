#include "engine/cuda/device_block.cuh"
#include "engine/cuda/exchange.h"
#include "engine/cuda/exchange_kernel.h"

// The name is kExchangeKernel.
extern "C" __global__ void __launch_bounds__(horing::cuda::kExchangeThreads)
    horing_exchange(const __grid_constant__ horing::cuda::ExchangeCall call) {
  using namespace horing::cuda;
  __shared__ ExchangeShared shared;
  DeviceBlock<ExchangeShared, kExchangeThreads> block(shared);
  ExchangeRun(call, static_cast<int32_t>(blockIdx.x), block).run();
}
