// Messages that hosts carry, on a stream, while the program uses a kernel for the first time: does the stream come to its end
// (src/comm/gpu/README.md, "Failures")? Two ranks from a launcher: HORING_GPU_PATH=staged horing-run -n 2 -- first_use_bench
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "horing/horing.h"
#include "must.h"

namespace {
__global__ void firstUsed(float* out) {
  *out = 1;
}
}  // namespace

int main() {
  constexpr size_t kCount = 16 << 20;
  horingComm_t comm = nullptr;
  MUST(cudaFree(nullptr));
  MUST(horingCommInitFromEnv(&comm));
  int rank = 0;
  MUST(horingCommUserRank(comm, &rank));
  float *sent = nullptr, *received = nullptr, *other = nullptr;
  MUST(cudaMalloc(&sent, kCount * sizeof(float)));
  MUST(cudaMalloc(&received, kCount * sizeof(float)));
  MUST(cudaMalloc(&other, sizeof(float)));
  cudaStream_t stream = nullptr, beside = nullptr;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  const auto exchange = [&] {
    MUST(horingGroupStart());
    MUST(horingSend(sent, kCount, horingFloat, 1 - rank, comm, stream));
    MUST(horingRecv(received, kCount, horingFloat, 1 - rank, comm, stream));
    MUST(horingGroupEnd());
  };
  // All that the library makes is there.
  exchange();
  MUST(cudaStreamSynchronize(stream));
  // Rank 1 is late, so that the stream of rank 0 waits when it uses the kernel.
  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto begin = std::chrono::steady_clock::now();
  exchange();
  if (rank == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    firstUsed<<<1, 1, 0, beside>>>(other);
  }
  MUST(cudaStreamSynchronize(stream));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  horingResult_t state = horingSuccess;
  MUST(horingCommGetAsyncError(comm, &state));
  std::printf("rank %d: 64 MiB each way, %.2f s, %s\n", rank, seconds, state == horingSuccess ? "done" : horingGetLastError(comm));
  horingCommAbort(comm);
  return state == horingSuccess ? 0 : 1;
}
