#pragma once
// The kernels on one GPU: found, counted, launched.
#include <array>
#include <memory>
#include <mutex>

#include "cuda/device.h"
#include "engine/cuda/copy_call.h"
#include "engine/cuda/exchange_call.h"
#include "engine/cuda/lane_image.h"
#include "engine/cuda/lane_kernels.h"

namespace horing::cuda {

// The grid of a launch: the most that any of its ranks needs.
struct LaneGrid {
  int32_t lanes = 1;
  int32_t parts = 1;
  int32_t ranks = 1;
};

// A resource. Any thread. What the driver refuses is kUnhandledCudaError.
class LaneGpu {
 public:
  explicit LaneGpu(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  // The one that all of this process share for that GPU: so kernels are loaded once. It stays as what is in the reserve does
  // (cuda/reserve.h), for to unload a kernel may wait for others.
  static std::shared_ptr<LaneGpu> of(const std::shared_ptr<const CudaDevice>& device);
  ~LaneGpu();
  LaneGpu(const LaneGpu&) = delete;
  LaneGpu& operator=(const LaneGpu&) = delete;

  const CudaDevice& device() const { return *device_; }
  const std::shared_ptr<const CudaDevice>& sharedDevice() const { return device_; }
  // Loads all kernels, so that no launch has to while another kernel waits for it; but for that of copies.
  Status load();
  // The same of that one alone.
  Status loadCopy();
  // All blocks of all ranks that share the GPU and wait for each other must be resident at once. The least of all kernels.
  Result<int> mostResidentBlocks();
  // Asynchronously, on `stream`.
  Status launch(const LaneCalls& calls, const LaneGrid& grid, DataType type, RedOp op, CudaStream stream);
  Status launch(const ExchangeCall& call, CudaStream stream);
  Status launch(const CopyCall& call, CudaStream stream);

 private:
  Result<CudaFunction> find(DataType type, RedOp op);
  Result<CudaFunction> findExchange();
  Result<CudaFunction> findCopy();
  Status loadImage(LaneImage image);
  // Under mutex_.
  Status lookUp(CudaFunction& function, LaneImage image, const char* name);
  // That are resident at once on one.
  Result<int> blocksOfProcessor(CudaFunction function, int threads) const;
  Status launch(CudaFunction function, std::array<int32_t, 3> grid, int threads, const void* parameter,
                CudaStream stream) const;

  const std::shared_ptr<const CudaDevice> device_;
  std::mutex mutex_;
  std::array<CudaModule, kLaneImages> modules_{};  // under mutex_
  std::array<std::array<CudaFunction, kRedOps>, kDataTypes>
      functions_{};                  // under mutex_; null: not looked up yet
  CudaFunction exchange_ = nullptr;  // as these
  CudaFunction copy_ = nullptr;      // the same
};

}  // namespace horing::cuda
