#pragma once
// Ranks that share one GPU, each with a stream, and the clock of the GPU. Errors of CUDA end the program.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/cuda/gpu_world.h"
#include "engine/cuda/launch.h"

namespace horing::cuda_bench {

inline void must(cudaError_t error, const char* tried) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", tried, cudaGetErrorString(error));
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (result.ok()) return result.take();
  std::fprintf(stderr, "%s\n", result.status().toString().c_str());
  std::exit(1);
}
inline void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.toString().c_str());
  std::exit(1);
}

class Streams {
 public:
  explicit Streams(int count) : streams_(static_cast<size_t>(count)) {
    for (cudaStream_t& stream : streams_)
      must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    must(cudaEventCreate(&begin_), "cudaEventCreate");
    must(cudaEventCreate(&end_), "cudaEventCreate");
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
    for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
  }

  cudaStream_t operator[](int rank) const { return streams_[static_cast<size_t>(rank)]; }

  // Microseconds of a round, the median of several runs of `rounds` after one that does not count. `launch`: of one round, on
  // all streams. From the first kernel of stream 0 to its last, which all others take part in.
  double measure(int rounds, const std::function<void()>& launch) {
    std::vector<float> runs;
    for (int run = 0; run < 6; ++run) {
      must(cudaEventRecord(begin_, streams_[0]), "cudaEventRecord");
      for (int round = 0; round < rounds; ++round) launch();
      must(cudaEventRecord(end_, streams_[0]), "cudaEventRecord");
      for (cudaStream_t stream : streams_) must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      float milliseconds = 0;
      must(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
      if (run > 0) runs.push_back(milliseconds);
    }
    std::sort(runs.begin(), runs.end());
    return 1000.0 * static_cast<double>(runs[runs.size() / 2]) / rounds;
  }

 private:
  std::vector<cudaStream_t> streams_;
  cudaEvent_t begin_;
  cudaEvent_t end_;
};

// An all-reduce, reduce-scatter or all-gather of float32 sums by ranks on one GPU, out of place.
class GpuRanks {
 public:
  GpuRanks(const test::GpuWorldOptions& options, size_t most_count)
      : memory_(must(cuda::makeDeviceMemory(0))),
        flag_(must(cuda::PinnedFlag::make())),
        world_(must(test::GpuWorld::make(options, *memory_, flag_->address()))),
        streams_(world_->ranks()) {
    for (int32_t rank = 0; rank < world_->ranks(); ++rank) {
      inputs_.push_back(must(memory_->allocate(most_count * sizeof(float))));
      outputs_.push_back(must(memory_->allocate(most_count * sizeof(float))));
    }
  }

  Streams& streams() { return streams_; }
  test::GpuWorld& world() { return *world_; }
  cuda::Memory& memory() { return *memory_; }
  std::byte* input(int32_t rank) { return inputs_[static_cast<size_t>(rank)]; }
  std::byte* output(int32_t rank) { return outputs_[static_cast<size_t>(rank)]; }

  // `count` as the collective has it. Ready to launch again and again.
  std::vector<cuda::LaneCall> prepare(size_t count) {
    std::vector<cuda::LaneCall> calls;
    for (int32_t rank = 0; rank < world_->ranks(); ++rank) {
      Call call;
      call.input = input(rank);
      call.output = output(rank);
      call.count = count;
      calls.push_back(must(world_->plan(rank).prepare(call)));
    }
    return calls;
  }
  void launch(const std::vector<cuda::LaneCall>& calls) {
    for (int32_t rank = 0; rank < world_->ranks(); ++rank)
      must(cuda::launch(world_->plan(rank), calls[static_cast<size_t>(rank)], DataType::kFloat32, RedOp::kSum,
                        streams_[rank]));
  }
  void checkOutcome() {
    for (int32_t rank = 0; rank < world_->ranks(); ++rank) must(world_->plan(rank).outcome());
  }

 private:
  std::unique_ptr<cuda::Memory> memory_;
  std::unique_ptr<cuda::PinnedFlag> flag_;
  std::unique_ptr<test::GpuWorld> world_;
  Streams streams_;
  std::vector<std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

}  // namespace horing::cuda_bench
