#pragma once
// The kernels on one GPU: lookup, occupancy and launch.
#include <array>
#include <memory>
#include <mutex>

#include "cuda/device.h"
#include "engine/cuda/copy_call.h"
#include "engine/cuda/element_call.h"
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

// A resource. Any thread. Errors of the driver are kUnhandledCudaError.
class LaneGpu {
 public:
  explicit LaneGpu(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  // The object for this GPU, shared by the process, so that kernels are loaded once. It is kept like memory in the reserve
  // (cuda/reserve.h), since unloading a kernel may wait for other kernels.
  static std::shared_ptr<LaneGpu> of(const std::shared_ptr<const CudaDevice>& device);
  ~LaneGpu();
  LaneGpu(const LaneGpu&) = delete;
  LaneGpu& operator=(const LaneGpu&) = delete;

  const CudaDevice& device() const { return *device_; }
  const std::shared_ptr<const CudaDevice>& sharedDevice() const { return device_; }
  // Loads the kernels of lanes and messages, so that no launch has to load while another kernel waits for it.
  Status load();
  // Loads the copy kernel.
  Status loadCopy();
  // Loads the kernel that works on elements.
  Status loadElements();
  // The most blocks that are resident at once, the least of all kernels. All blocks that wait for each other, of all ranks that share the
  // GPU, must be resident.
  Result<int> mostResidentBlocks();
  // Asynchronous, on `stream`.
  Status launch(const LaneCalls& calls, const LaneGrid& grid, DataType type, RedOp op, CudaStream stream);
  Status launch(const ExchangeCall& call, CudaStream stream);
  Status launch(const CopyCall& call, CudaStream stream);
  Status launch(const ElementCall& call, int32_t blocks, CudaStream stream);

 private:
  Result<CudaFunction> find(DataType type, RedOp op);
  Result<CudaFunction> findExchange();
  Result<CudaFunction> findCopy();
  Result<CudaFunction> findElements();
  Status loadImage(LaneImage image);
  // Under mutex_.
  Status lookUp(CudaFunction& function, LaneImage image, const char* name);
  // The resident blocks per multiprocessor.
  Result<int> blocksOfProcessor(CudaFunction function, int threads) const;
  Status launch(CudaFunction function, std::array<int32_t, 3> grid, int threads, const void* parameter,
                CudaStream stream) const;

  const std::shared_ptr<const CudaDevice> device_;
  std::mutex mutex_;
  std::array<CudaModule, kLaneImages> modules_{};  // under mutex_
  std::array<std::array<CudaFunction, kRedOps>, kDataTypes>
      functions_{};                  // under mutex_; null: not looked up yet
  CudaFunction exchange_ = nullptr;  // the same
  CudaFunction copy_ = nullptr;      // the same
  CudaFunction elements_ = nullptr;  // the same
};

}  // namespace horing::cuda
