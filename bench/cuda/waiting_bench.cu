// Which driver calls block while a stream, or a kernel, waits for the host, as streams do while hosts carry operations
// (src/comm/gpu/README.md, "Failures"): whether each call returns, and whether a copy that another thread then requests completes.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "must.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatience{1000};

// Each is launched once, so that a driver that loads kernels when they are first used loads it then.
template <int kNumber>
__global__ void firstUsed(int* out) {
  *out = kNumber;
}

// Runs until the host ends it.
__global__ void waitForHost(const volatile uint32_t* word, uint32_t number) {
  while (*word < number) {
  }
}

// A stream that waits until it is let go: by itself, or in a kernel.
class WaitingStream {
 public:
  explicit WaitingStream(bool in_kernel) : in_kernel_(in_kernel) {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    wait_ = reinterpret_cast<decltype(wait_)>(::dlsym(driver, "cuStreamWaitValue32_v2"));
    if (!wait_) fail("cuStreamWaitValue32", 0);
    MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MUST(cudaHostAlloc(&word_, sizeof *word_, cudaHostAllocMapped));
    *word_ = 0;
  }
  void begin() {
    ++number_;
    if (in_kernel_)
      waitForHost<<<1, 1, 0, stream_>>>(word_, number_);
    else
      MUST(wait_(stream_, reinterpret_cast<uintptr_t>(word_), number_, CU_STREAM_WAIT_VALUE_GEQ));
  }
  void letGo() { std::atomic_ref<uint32_t>(*word_).store(number_); }
  void end() { MUST(cudaStreamSynchronize(stream_)); }

 private:
  int (*wait_)(cudaStream_t, CUdeviceptr, uint32_t, unsigned int) = nullptr;
  const bool in_kernel_;
  cudaStream_t stream_ = nullptr;
  uint32_t* word_ = nullptr;
  uint32_t number_ = 0;
};

// On a separate thread; its duration, or that it did not return in time.
class Call {
 public:
  explicit Call(std::function<void()> call)
      : thread_([this, call = std::move(call)] {
          const auto begin = Clock::now();
          call();
          took_us_ = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
        }) {}
  ~Call() { thread_.join(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  // In microseconds; -1: not yet.
  int64_t awaited() const {
    for (const auto begin = Clock::now(); took_us_ < 0 && Clock::now() - begin < kPatience;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return took_us_;
  }

 private:
  std::atomic<int64_t> took_us_{-1};
  std::thread thread_;
};

void print(int64_t took_us) {
  if (took_us < 0)
    std::printf("%20s", "kept");
  else
    std::printf("%17lld us", static_cast<long long>(took_us));
}

class Table {
 public:
  explicit Table(bool in_kernel) : waiting_(in_kernel) {
    int least = 0, greatest = 0;
    MUST(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    MUST(cudaStreamCreateWithPriority(&copies_, cudaStreamNonBlocking, greatest));
    MUST(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
    MUST(cudaMalloc(&gpu_, kBytes));
    MUST(cudaHostAlloc(&host_, kBytes, cudaHostAllocDefault));
    MUST(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
    std::printf("\n%-28s%20s%20s%20s\n", in_kernel ? "while a kernel waits" : "while a stream waits", "this call takes",
                "asking for a copy", "until it is done");
  }
  cudaStream_t other() const { return other_; }
  int* out() const { return static_cast<int*>(gpu_); }

  void row(const char* name, std::function<void()> call) {
    waiting_.begin();
    {
      const Call tested(std::move(call));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::atomic<bool> is_asked = false;
      const Call ask([&] {
        MUST(cudaMemcpyAsync(gpu_, host_, kBytes, cudaMemcpyHostToDevice, copies_));
        MUST(cudaEventRecord(copied_, copies_));
        is_asked = true;
      });
      const Call copy([&] {
        while (!is_asked || cudaEventQuery(copied_) == cudaErrorNotReady) std::this_thread::yield();
      });
      const int64_t copied = copy.awaited(), asked = ask.awaited(), took = tested.awaited();
      std::printf("%-28s", name);
      print(took);
      print(asked);
      print(copied);
      std::printf("\n");
      std::fflush(stdout);
      waiting_.letGo();
    }
    waiting_.end();
  }

 private:
  static constexpr size_t kBytes = 512 << 10;
  WaitingStream waiting_;
  cudaStream_t copies_ = nullptr, other_ = nullptr;
  cudaEvent_t copied_ = nullptr;
  void *gpu_ = nullptr, *host_ = nullptr;
};

// Kernels [kFirst, kFirst + 2] are used for the first time.
template <int kFirst>
void measure(bool in_kernel) {
  Table table(in_kernel);
  firstUsed<kFirst><<<1, 1, 0, table.other()>>>(table.out());
  MUST(cudaStreamSynchronize(table.other()));
  void *memory[2] = {}, *pinned[2] = {};
  MUST(cudaMalloc(&memory[0], 1 << 20));
  MUST(cudaHostAlloc(&pinned[0], 1 << 20, cudaHostAllocDefault));
  table.row("nothing else", [] {});
  table.row("a kernel used before", [&] { firstUsed<kFirst><<<1, 1, 0, table.other()>>>(table.out()); });
  table.row("a kernel's first use", [&] { firstUsed<kFirst + 1><<<1, 1, 0, table.other()>>>(table.out()); });
  table.row("another kernel's first use", [&] { firstUsed<kFirst + 2><<<1, 1, 0, table.other()>>>(table.out()); });
  table.row("cudaMalloc", [&] { MUST(cudaMalloc(&memory[1], 64 << 20)); });
  table.row("cudaFree", [&] { MUST(cudaFree(memory[0])); });
  table.row("cudaHostAlloc", [&] { MUST(cudaHostAlloc(&pinned[1], 1 << 20, cudaHostAllocDefault)); });
  table.row("cudaFreeHost", [&] { MUST(cudaFreeHost(pinned[0])); });
  table.row("cudaDeviceSynchronize", [] { MUST(cudaDeviceSynchronize()); });
}

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("no GPU here\n");
    return 77;
  }
  measure<0>(false);
  measure<3>(true);
}
