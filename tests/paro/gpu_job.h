#pragma once
// Ranks whose clients are on GPUs of the fake driver, one each. Kernels are the library's, run on threads of the host.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "emulated_kernels.h"
#include "engine/cuda/element_kernel.h"
#include "engine/cuda/element_run.h"
#include "fake_cuda/fake_gpu.h"
#include "job.h"

namespace horing::test {

inline constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

inline void runElements(const void* parameter, const fake::Grid& grid) {
  const auto& call = *static_cast<const cuda::ElementCall*>(parameter);
  const auto threads = static_cast<uint64_t>(grid.x) * cuda::kElementThreads;
  for (uint64_t thread = 0; thread < threads; ++thread) cuda::ElementRun(call, thread, threads).run();
}

// Only the kernel for elements: collectives go through the host.
inline constexpr fake::Kernels kElementKernels = {
    [](const char* name) -> size_t {
      return std::string_view(name) == cuda::kElementKernel ? sizeof(cuda::ElementCall) : 0;
    },
    [](const char*, const void* parameter, const fake::Grid& grid) { runElements(parameter, grid); }};

// Collectives are kernels, too, of the types that are emulated.
inline constexpr fake::Kernels kAllKernels = {
    [](const char* name) {
      const size_t bytes = kElementKernels.parameter_bytes(name);
      return bytes > 0 ? bytes : emulatedKernels().parameter_bytes(name);
    },
    [](const char* name, const void* parameter, const fake::Grid& grid) {
      (kElementKernels.parameter_bytes(name) > 0 ? kElementKernels : emulatedKernels())
          .run(name, parameter, grid);
    }};

// Of types for which kernels of collectives are emulated.
inline const std::vector<horingParoParam_t> kKernelModel = [] {
  std::vector<horingParoParam_t> model;
  std::ranges::copy_if(kModel, std::back_inserter(model), [](const horingParoParam_t& param) {
    return param.type == horingFloat32 || param.type == horingBfloat16;
  });
  return model;
}();

// By copies on the stream of a client. The first give() allocates memory.
class GpuAccess final : public Access {
 public:
  GpuAccess(const FakeCuda& cuda, int gpu, const GpuStream& stream)
      : cuda_(cuda), gpu_(gpu), stream_(stream) {}
  void read(void* to, const void* from, size_t bytes) const override {
    if (bytes == 0) return;
    copy(to, from, bytes);
    stream_.synchronize();
  }
  const void* give(const std::vector<char>& values) const override {
    if (!given_) given_.emplace(cuda_, gpu_, std::vector<char>(kMostGiven));
    char* const at = given_->data() + used_;
    used_ += (values.size() + 63) / 64 * 64;
    EXPECT_LE(used_, kMostGiven);
    write(at, values.data(), values.size());
    return at;
  }
  void release() const override {
    stream_.synchronize();
    used_ = 0;
  }
  // When the stream comes to it; memory of the host must be pinned and stay until then.
  void copy(void* to, const void* from, size_t bytes) const {
    const CurrentGpu current(cuda_, gpu_);
    EXPECT_EQ(cuda_.call<int(unsigned long long, unsigned long long, size_t, void*)>("cuMemcpyAsync")(
                  reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, stream_.get()),
              0);
  }

 private:
  static constexpr size_t kMostGiven = 64 << 10;
  const FakeCuda& cuda_;
  const int gpu_;
  const GpuStream& stream_;
  mutable std::optional<GpuVector<char>> given_;
  mutable size_t used_ = 0;
};

// A rank's GPU, stream and memory.
class GpuRank {
 public:
  GpuRank(const FakeCuda& cuda, int rank)
      : gpu_(rank % cuda.gpus()),
        stream_(cuda, gpu_),
        access_(std::make_shared<GpuAccess>(cuda, gpu_, stream_)) {
    memory_.onGpu = 1;
    memory_.stream = stream_.get();
  }
  int gpu() const { return gpu_; }
  const GpuStream& stream() const { return stream_; }
  horingParoMemory_t& memory() { return memory_; }
  const std::shared_ptr<const GpuAccess>& access() const { return access_; }

 private:
  const int gpu_;
  const GpuStream stream_;
  const std::shared_ptr<const GpuAccess> access_;
  horingParoMemory_t memory_ = HORING_PARO_MEMORY_INITIALIZER;
};

class ParoOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cuda_.loaded());
    cuda_.setKernels(&kElementKernels);
    live_ = cuda_.live();
  }
  // Nothing is left on any GPU.
  void TearDown() override {
    cuda_.fail(nullptr, 0);
    destroyAll(comms_);
    EXPECT_EQ(cuda_.live(), live_);
    cuda_.setKernels(nullptr);
  }
  // Collectives go through the host.
  void meetStaged(const Sizes& sizes) {
    const Setting path("HORING_GPU_PATH", "staged");
    comms_ = makeGroupsOf(sizes);
  }
  // Ranks of two groups, which have their GPUs current when they meet: collectives are kernels, too.
  void meetOnGpus(int first_group, int second_group) {
    cuda_.setKernels(&kAllKernels);
    std::vector<std::unique_ptr<CurrentGpu>> current;
    comms_ = makeOneByOne(first_group + second_group, [&](int rank) {
      ::setenv("HORING_GROUP", rank < first_group ? "a" : "b", 1);
      current.push_back(std::make_unique<CurrentGpu>(cuda_, rank));
    });
    ::unsetenv("HORING_GROUP");
    while (!current.empty()) current.pop_back();
  }
  int ranks() const { return static_cast<int>(comms_.size()); }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }

  // Calls body(paro, trainee, gpu_rank) on every rank, of a fresh client on its GPU.
  template <typename Body>
  void onGpus(horingParoConfig_t config, const std::vector<horingParoParam_t>& params, Body body) {
    onEveryRank(ranks(), [&](int rank) {
      GpuRank mine(cuda_, rank);
      horingParoConfig_t own = config;
      own.memory = &mine.memory();
      horingParo_t paro = nullptr;
      ASSERT_PARO(horingParoCreate(&paro, comm(rank), &own, params.data(), params.size()));
      Trainee trainee(paro, rank, params, mine.access());
      body(paro, trainee, mine);
      EXPECT_PARO(horingParoDestroy(paro));
    });
  }

  // Trains as one rank would, whose values all ranks then have.
  void train(const horingParoConfig_t& config, const std::vector<horingParoParam_t>& params,
             Optimizer optimizer, int micro_steps) {
    constexpr int kSteps = 2;
    std::vector<Reference> after = {Reference(params, optimizer)};
    for (int step = 0; step < kSteps; ++step) {
      after.push_back(after.back());
      after.back().step(ranks(), micro_steps, step, config.average ? 1.0 / ranks() : 1.0);
    }
    onGpus(config, params, [&](horingParo_t, Trainee& trainee, GpuRank&) {
      trainee.initialise();
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_NO_FATAL_FAILURE(trainee.expectParams(after[static_cast<size_t>(step)]));
        ASSERT_NO_FATAL_FAILURE(trainee.step(optimizer, micro_steps, step));
      }
      trainee.expectParams(after.back());
      trainee.expectMasters(after.back());
    });
  }

  const FakeCuda cuda_;
  int live_ = 0;
  std::vector<horingComm_t> comms_;
};

}  // namespace horing::test
