#include "engine/cuda/lane_gpu.h"

#include <algorithm>
#include <map>

#include "cuda/reserve.h"
#include "engine/cuda/copy_kernel.h"
#include "engine/cuda/element_kernel.h"
#include "engine/cuda/exchange_kernel.h"

namespace horing::cuda {

namespace {
constexpr int kAttributeProcessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
}

std::shared_ptr<LaneGpu> LaneGpu::of(const std::shared_ptr<const CudaDevice>& device) {
  struct User {
    CudaReserve::Use use;  // destroyed last
    std::shared_ptr<LaneGpu> gpu;
  };
  static std::mutex mutex;
  static auto* const gpus = new std::map<int, std::weak_ptr<LaneGpu>>;  // calls may come during exit
  const std::lock_guard lock(mutex);
  std::weak_ptr<LaneGpu>& known = (*gpus)[device->number()];
  std::shared_ptr<LaneGpu> gpu = known.lock();
  if (!gpu) known = gpu = std::make_shared<LaneGpu>(device);
  const std::shared_ptr<User> user(new User{CudaReserve::Use(gpu), gpu});
  return {user, gpu.get()};
}

LaneGpu::~LaneGpu() {
  const CudaDevice::Current current(*device_);
  for (const CudaModule module : modules_)
    if (module) device_->api().module_unload(module);
}

Status LaneGpu::load() {
  const std::lock_guard lock(mutex_);
  for (const LaneImage image : {LaneImage::kFloats, LaneImage::kIntegers, LaneImage::kExchange})
    HORING_TRY(loadImage(image));
  return {};
}

// Looking the function up loads it; images are loaded lazily.
Status LaneGpu::loadCopy() {
  return findCopy().status();
}

Status LaneGpu::loadElements() {
  return findElements().status();
}

Status LaneGpu::loadImage(LaneImage image) {
  CudaModule& module = modules_[static_cast<size_t>(image)];
  if (module) return {};
  const CudaDevice::Current current(*device_);
  const Status loaded =
      device_->api().check(device_->api().module_load(&module, laneImage(image)),
                           formatString("loading kernels for GPU %d", device_->number()).c_str());
  if (loaded.ok()) return loaded;
  if (const char* const version = laneImageVersion())
    return makeStatus(
        loaded.code(),
        "%s. They were compiled by CUDA %s: the driver must be of that version or later, and the "
        "GPU one of those that the library was built for (HORING_CUDA_ARCHITECTURES)",
        loaded.message().c_str(), version);
  return makeStatus(loaded.code(), "this library was built without a CUDA compiler and has no kernels (%s)",
                    loaded.message().c_str());
}

Result<CudaFunction> LaneGpu::find(DataType type, RedOp op) {
  if (!hasRedOp(type, op))
    return makeStatus(Code::kInvalidArgument, "%s has no %s", dataTypeName(type), redOpName(op));
  const std::lock_guard lock(mutex_);
  CudaFunction& function = functions_[static_cast<size_t>(type)][static_cast<size_t>(op)];
  if (function) return function;
  const LaneImage image = isFloatingPoint(type) ? LaneImage::kFloats : LaneImage::kIntegers;
  HORING_TRY(lookUp(function, image, laneKernelName(type, op).c_str()));
  return function;
}

Result<CudaFunction> LaneGpu::findExchange() {
  const std::lock_guard lock(mutex_);
  if (!exchange_) HORING_TRY(lookUp(exchange_, LaneImage::kExchange, kExchangeKernel));
  return exchange_;
}

Result<CudaFunction> LaneGpu::findCopy() {
  const std::lock_guard lock(mutex_);
  if (!copy_) HORING_TRY(lookUp(copy_, LaneImage::kCopy, kCopyKernel));
  return copy_;
}

Result<CudaFunction> LaneGpu::findElements() {
  const std::lock_guard lock(mutex_);
  if (!elements_) HORING_TRY(lookUp(elements_, LaneImage::kElements, kElementKernel));
  return elements_;
}

Status LaneGpu::lookUp(CudaFunction& function, LaneImage image, const char* name) {
  HORING_TRY(loadImage(image));
  const CudaDevice::Current current(*device_);
  const CudaApi& api = device_->api();
  return api.check(api.module_function(&function, modules_[static_cast<size_t>(image)], name), name);
}

Result<int> LaneGpu::mostResidentBlocks() {
  int processors = 0;
  HORING_TRY(device_->api().check(
      device_->api().device_attribute(&processors, kAttributeProcessors, device_->number()),
      "asking for a GPU's processors"));
  HORING_ASSIGN(const CudaFunction exchange, findExchange());
  HORING_ASSIGN(int least, blocksOfProcessor(exchange, kExchangeThreads));
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kRedOps; ++op) {
      if (!hasRedOp(static_cast<DataType>(type), static_cast<RedOp>(op))) continue;
      HORING_ASSIGN(const CudaFunction function, find(static_cast<DataType>(type), static_cast<RedOp>(op)));
      HORING_ASSIGN(const int blocks, blocksOfProcessor(function, kLaneThreads));
      least = std::min(least, blocks);
    }
  return least * processors;
}

Result<int> LaneGpu::blocksOfProcessor(CudaFunction function, int threads) const {
  const CudaApi& api = device_->api();
  const CudaDevice::Current current(*device_);
  int blocks = 0;
  HORING_TRY(
      api.check(api.occupancy(&blocks, function, threads, 0), "asking how many blocks are resident at once"));
  return blocks;
}

Status LaneGpu::launch(const LaneCalls& calls, const LaneGrid& grid, DataType type, RedOp op,
                       CudaStream stream) {
  HORING_ASSIGN(const CudaFunction function, find(type, op));
  return launch(function, {grid.lanes, grid.parts, grid.ranks}, kLaneThreads, &calls, stream);
}

Status LaneGpu::launch(const ExchangeCall& call, CudaStream stream) {
  HORING_ASSIGN(const CudaFunction function, findExchange());
  return launch(function, {call.blocks, 1, 1}, kExchangeThreads, &call, stream);
}

Status LaneGpu::launch(const CopyCall& call, CudaStream stream) {
  HORING_ASSIGN(const CudaFunction function, findCopy());
  return launch(function, {call.blocks, 1, 1}, kCopyThreads, &call, stream);
}

Status LaneGpu::launch(const ElementCall& call, int32_t blocks, CudaStream stream) {
  HORING_ASSIGN(const CudaFunction function, findElements());
  return launch(function, {blocks, 1, 1}, kElementThreads, &call, stream);
}

Status LaneGpu::launch(CudaFunction function, std::array<int32_t, 3> grid, int threads, const void* parameter,
                       CudaStream stream) const {
  const CudaDevice::Current current(*device_);
  const CudaApi& api = device_->api();
  const auto [x, y, z] = grid;
  void* parameters[] = {const_cast<void*>(parameter)};
  return api.check(
      api.launch(function, static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z),
                 static_cast<unsigned>(threads), 1, 1, 0, stream, parameters, nullptr),
      "launching a kernel");
}

}  // namespace horing::cuda
