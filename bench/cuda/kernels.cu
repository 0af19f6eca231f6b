#include <cuda_runtime.h>

#include "cuda/kernels.h"
#include "engine/cuda/fold_body.h"
#include "engine/cuda/lane_kernels.h"

namespace horing::cuda_bench {

namespace {

using cuda::FoldWork;
using cuda::Port;
using SumRule = cuda::Rule<cuda::FloatCodec<float, uint32_t>, cuda::Add>;

__global__ void __launch_bounds__(cuda::kLaneThreads)
    foldKernel(const std::byte* a, const std::byte* b, std::byte* to, size_t count) {
  // A separate stretch for each block, a multiple of 16 bytes.
  const size_t stretch = (count / gridDim.x + 127) / 128 * 128;
  const size_t begin = min(stretch * blockIdx.x, count);
  const size_t offset = begin * sizeof(float);
  const std::byte* const sources[] = {a + offset, b ? b + offset : nullptr};
  const uint8_t is_input[] = {1, 1};
  __shared__ std::byte* destinations[1];
  if (threadIdx.x == 0) destinations[0] = to + offset;
  __syncthreads();
  const FoldWork work{sources, is_input, b ? 2 : 1, destinations, 1, min(stretch, count - begin),
                      threadIdx.x, cuda::kLaneThreads};
  cuda::foldSlice<SumRule>({}, work);
}

// Ends the program when it has timed out.
template <class Condition>
__device__ void await(const Condition& is_there) {
  constexpr uint32_t kLooks = 1 << 16;
  constexpr uint64_t kTimeoutNs = 20'000'000'000;
  uint64_t begun_ns = 0;
  for (uint32_t looks = 1; !is_there(); ++looks) {
    if (looks % kLooks != 0) continue;
    uint64_t now_ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now_ns));
    if (begun_ns == 0) begun_ns = now_ns;
    if (now_ns - begun_ns > kTimeoutNs) __trap();
  }
}

// What a step of the ring has: the message from behind, the own input, or both; kept, sent on, or both.
enum Flags : int { kReceives = 1, kAdds = 2, kKeeps = 4, kSends = 8 };

__device__ void ringSlice(const RingCall& call, Port& behind, Port& ahead, int flags, size_t element,
                          size_t count) {
  __shared__ const std::byte* sources[2];
  __shared__ uint8_t is_input[2];
  __shared__ std::byte* destinations[2];
  const size_t offset = element * sizeof(float);
  if (threadIdx.x == 0) {
    int s = 0, d = 0;
    if (flags & kReceives) {
      await([&] { return behind.canReceive(); });
      sources[s++] = behind.data();
    }
    if (flags & kAdds) sources[s] = call.input + offset;
    if (flags & kKeeps) destinations[d++] = call.output + offset;
    if (flags & kSends) {
      await([&] { return ahead.canSend(); });
      destinations[d] = ahead.data();
    }
  }
  __syncthreads();
  const int32_t source_count = (flags & kReceives ? 1 : 0) + (flags & kAdds ? 1 : 0);
  const int32_t destination_count = (flags & kKeeps ? 1 : 0) + (flags & kSends ? 1 : 0);
  const FoldWork work{sources, is_input,    source_count, destinations, destination_count,
                      count,   threadIdx.x, cuda::kLaneThreads};
  cuda::foldSlice<SumRule>({}, work);
  __syncthreads();
  if (threadIdx.x == 0) {
    if (flags & kSends) {
      cuda::releaseFence();
      ahead.advance();
    }
    if (flags & kReceives) behind.advance();
  }
}

__global__ void __launch_bounds__(cuda::kLaneThreads) ringKernel(const __grid_constant__ RingCall call) {
  const int32_t n = call.ranks;
  __shared__ Port behind, ahead;
  if (threadIdx.x == 0) {
    behind = call.from_behind[blockIdx.x];
    ahead = call.to_ahead[blockIdx.x];
  }
  for (int32_t begin = 0; begin < call.slices; begin += call.window)
    for (int32_t step = 0; step < 2 * n - 1; ++step) {
      // Around once adding, around again keeping: chunk rank-1 first.
      const int32_t number = (call.rank + 2 * n - 1 - step) % n;
      const int flags = (step > 0 ? kReceives : 0) | (step < n ? kAdds : 0) | (step >= n - 1 ? kKeeps : 0) |
                        (step < 2 * n - 2 ? kSends : 0);
      const size_t first = min(call.chunk * number, call.count);
      const ElementRange own = cuda::PartCut::range(min(call.chunk, call.count - first), call.part,
                                                    static_cast<int32_t>(blockIdx.x));
      for (int32_t slice = begin; slice < min(begin + call.window, call.slices); ++slice) {
        const ElementRange range = call.slicing.range(own.count, slice);
        if (range.count > 0)
          ringSlice(call, behind, ahead, flags, first + own.offset + range.offset, range.count);
      }
    }
  if (threadIdx.x == 0) {
    call.from_behind[blockIdx.x] = behind;
    call.to_ahead[blockIdx.x] = ahead;
  }
}

}  // namespace

void launchFold(const std::byte* a, const std::byte* b, std::byte* to, size_t count, int blocks,
                void* stream) {
  foldKernel<<<blocks, cuda::kLaneThreads, 0, static_cast<cudaStream_t>(stream)>>>(a, b, to, count);
}

void launchRing(const RingCall& call, void* stream) {
  ringKernel<<<call.parts, cuda::kLaneThreads, 0, static_cast<cudaStream_t>(stream)>>>(call);
}

}  // namespace horing::cuda_bench
