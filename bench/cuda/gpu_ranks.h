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

#include "cuda/driver.h"
#include "engine/cuda/device_memory.h"
#include "engine/cuda/gpu_world.h"
#include "engine/cuda/lane_gpu.h"

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

// GPU 0. Ends the program where there is none: see Machine::hasGpu().
class Machine {
 public:
  static bool hasGpu() { return cudaFree(nullptr) == cudaSuccess; }
  static cuda::LaneGpu& gpu() { return of().gpu_; }
  static const std::shared_ptr<const CudaDevice>& device() { return of().device_; }
  // Keeps GPU 0's context while it exists.
  static std::unique_ptr<cuda::Memory> memory(size_t bytes) {
    return must(cuda::makeDeviceMemory(device(), bytes));
  }

 private:
  Machine()
      : driver_(must(CudaDriver::load())),
        device_(must(CudaDevice::open(driver_->api().value(), 0))),
        gpu_(device_) {}
  static Machine& of() {
    static Machine machine;
    return machine;
  }
  std::unique_ptr<CudaDriver> driver_;
  std::shared_ptr<const CudaDevice> device_;
  cuda::LaneGpu gpu_;
};

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

  // Microseconds of a round by graphs, which spare launches of the host: one for each stream, of `rounds` rounds. `launch`: of one round
  // on the stream of that number.
  double measureInGraphs(int rounds, const std::function<void(int)>& launch) {
    const int streams = static_cast<int>(streams_.size());
    // Loads kernels, which no stream that records may do.
    for (int number = 0; number < streams; ++number) launch(number);
    for (cudaStream_t stream : streams_) must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::vector<cudaGraphExec_t> graphs;
    for (int number = 0; number < streams; ++number) {
      cudaStream_t const stream = (*this)[number];
      cudaGraph_t graph;
      must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      for (int round = 0; round < rounds; ++round) launch(number);
      must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
      must(cudaGraphInstantiate(&graphs.emplace_back(), graph, 0), "cudaGraphInstantiate");
      must(cudaGraphDestroy(graph), "cudaGraphDestroy");
      // Before one of them runs, since it waits for the others.
      must(cudaGraphUpload(graphs.back(), stream), "cudaGraphUpload");
      must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
    const double us = measure(1, [&] {
      for (int number = 0; number < streams; ++number)
        must(cudaGraphLaunch(graphs[static_cast<size_t>(number)], (*this)[number]), "cudaGraphLaunch");
    });
    for (cudaGraphExec_t graph : graphs) (void)cudaGraphExecDestroy(graph);
    return us / rounds;
  }

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
      : memory_(Machine::memory((size_t{1} << 30) + static_cast<size_t>(options.shape.ranks()) * 2 *
                                                        (most_count * sizeof(float) + 256))),
        flags_(must(PinnedMemory::allocate(Machine::device(), sizeof(uint32_t)))),
        world_(must(test::GpuWorld::make(options, *memory_, reinterpret_cast<uint32_t*>(flags_.data())))),
        streams_(world_->ranks()) {
    *reinterpret_cast<uint32_t*>(flags_.data()) = 0;
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
  void launch(int32_t rank, const cuda::LaneCall& call) { launch(rank, std::vector{call}); }
  // Of all ranks at once, or of one, on the stream of `rank`.
  void launch(int32_t rank, const std::vector<cuda::LaneCall>& of_ranks) {
    cuda::LaneCalls calls;
    for (const cuda::LaneCall& call : of_ranks) calls.each[calls.count++] = call;
    must(Machine::gpu().launch(calls, {world_->plan(rank).lanes(), of_ranks[0].used_parts, calls.count},
                               DataType::kFloat32, RedOp::kSum, streams_[rank]));
  }
  void launch(const std::vector<cuda::LaneCall>& calls) {
    if (world_->isOneLaunch()) return launch(0, calls);
    for (int32_t rank = 0; rank < world_->ranks(); ++rank) launch(rank, calls[static_cast<size_t>(rank)]);
  }
  void checkOutcome() {
    for (int32_t rank = 0; rank < world_->ranks(); ++rank) must(world_->plan(rank).outcome());
  }

 private:
  std::unique_ptr<cuda::Memory> memory_;
  PinnedMemory flags_;
  std::unique_ptr<test::GpuWorld> world_;
  Streams streams_;
  std::vector<std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

}  // namespace horing::cuda_bench
