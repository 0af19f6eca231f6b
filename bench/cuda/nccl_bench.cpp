// All-reduce of processes that share a GPU, over sockets: horing and NCCL, in turns. Ranks come from a launcher: horing-run -n 2 --
// nccl_bench. NCCL is looked up at run time; without it, or without a GPU, it prints that and exits with 77.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "horing/horing.h"
#include "must.h"

namespace {

// Of nccl.h, which need not be here: handles, and the numbers of float32 and sum.
struct NcclId {
  char bytes[128];
};
struct Nccl {
  static constexpr int kFloat = 7, kSum = 0;
  int (*getId)(NcclId*) = nullptr;
  int (*initRank)(void**, int, NcclId, int) = nullptr;
  int (*allReduce)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*destroy)(void*) = nullptr;

  bool load() {
    void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    find(library, "ncclGetUniqueId", getId);
    find(library, "ncclCommInitRank", initRank);
    find(library, "ncclAllReduce", allReduce);
    find(library, "ncclCommDestroy", destroy);
    return getId && initRank && allReduce && destroy;
  }

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
  }
};

class Pair {
 public:
  explicit Pair(const Nccl& nccl) : nccl_(nccl) {
    MUST(horingCommInitFromEnv(&horing_));
    MUST(horingCommUserRank(horing_, &rank_));
    MUST(horingCommCount(horing_, &ranks_));
    // Ranks on one GPU are refused unless each has a different host.
    ::setenv("NCCL_HOSTID", ("horing-bench-" + std::to_string(rank_)).c_str(), 1);
    NcclId id{};
    if (rank_ == 0) MUST(nccl_.getId(&id));
    MUST(horingBroadcast(&id, &id, sizeof id, horingUint8, 0, horing_, nullptr));
    MUST(nccl_.initRank(&other_, ranks_, id, rank_));
    MUST(cudaStreamCreate(&stream_));
    MUST(cudaEventCreate(&begin_));
    MUST(cudaEventCreate(&end_));
  }
  ~Pair() {
    nccl_.destroy(other_);
    horingCommDestroy(horing_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void sweep(size_t from, size_t to) {
    float *send = nullptr, *receive = nullptr;
    MUST(cudaMalloc(&send, to));
    MUST(cudaMalloc(&receive, to));
    MUST(cudaMemset(send, 0, to));
    if (rank_ == 0)
      std::printf(
          "all_reduce, float32, %d processes on one GPU, over sockets; median of 5 turns, us\n%12s %12s %12s "
          "%8s\n",
          ranks_, "bytes", "horing", "nccl", "ratio");
    for (size_t bytes = from; bytes <= to; bytes *= 4) {
      const size_t count = bytes / sizeof(float);
      const int calls = bytes < (4 << 20) ? 20 : 3;
      std::vector<double> horing, nccl;
      for (int turn = 0; turn < 5; ++turn) {
        horing.push_back(time(calls, [&] {
          MUST(horingAllReduce(send, receive, count, horingFloat32, horingSum, horing_, stream_));
        }));
        nccl.push_back(time(calls, [&] {
          MUST(nccl_.allReduce(send, receive, count, Nccl::kFloat, Nccl::kSum, other_, stream_));
        }));
      }
      const double one = median(horing), other = median(nccl);
      if (rank_ == 0) std::printf("%12zu %12.1f %12.1f %8.2f\n", bytes, one, other, one / other);
    }
    MUST(cudaFree(send));
    MUST(cudaFree(receive));
  }

 private:
  static double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + 2, values.end());
    return values[2];
  }
  // Of one call, by the GPU's clock, the slowest rank's; the first call is not counted.
  double time(int calls, const std::function<void()>& call) {
    call();
    MUST(cudaStreamSynchronize(stream_));
    MUST(cudaEventRecord(begin_, stream_));
    for (int i = 0; i < calls; ++i) call();
    MUST(cudaEventRecord(end_, stream_));
    MUST(cudaStreamSynchronize(stream_));
    float ms = 0;
    MUST(cudaEventElapsedTime(&ms, begin_, end_));
    MUST(horingAllReduce(&ms, &ms, 1, horingFloat32, horingMax, horing_, nullptr));
    return 1000.0 * ms / calls;
  }

  const Nccl& nccl_;
  horingComm_t horing_ = nullptr;
  void* other_ = nullptr;
  int rank_ = 0, ranks_ = 1;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

int main() {
  Nccl nccl;
  if (cudaFree(nullptr) != cudaSuccess || !nccl.load()) {
    std::printf("no GPU or no libnccl.so.2 here\n");
    return 77;
  }
  Pair(nccl).sweep(64 << 10, 256 << 20);
  return 0;
}
