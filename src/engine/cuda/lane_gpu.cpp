#include "engine/cuda/lane_gpu.h"

#include <algorithm>
#include <map>

namespace horing::cuda {

namespace {
constexpr int kAttributeProcessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
}

std::shared_ptr<LaneGpu> LaneGpu::of(const std::shared_ptr<const CudaDevice>& device) {
  static std::mutex mutex;
  static auto* const gpus =
      new std::map<int, std::weak_ptr<LaneGpu>>;  // calls may come while the program ends
  const std::lock_guard lock(mutex);
  std::weak_ptr<LaneGpu>& known = (*gpus)[device->number()];
  std::shared_ptr<LaneGpu> gpu = known.lock();
  if (!gpu) known = gpu = std::make_shared<LaneGpu>(device);
  return gpu;
}

LaneGpu::~LaneGpu() {
  const CudaDevice::Current current(*device_);
  for (const CudaModule module : modules_)
    if (module) device_->api().module_unload(module);
}

Status LaneGpu::load() {
  const std::lock_guard lock(mutex_);
  HORING_TRY(loadImage(LaneImage::kFloats));
  return loadImage(LaneImage::kIntegers);
}

Status LaneGpu::loadImage(LaneImage image) {
  CudaModule& module = modules_[static_cast<size_t>(image)];
  if (module) return {};
  const CudaDevice::Current current(*device_);
  const Status loaded =
      device_->api().check(device_->api().module_load(&module, laneImage(image)),
                           formatString("loading kernels for GPU %d", device_->number()).c_str());
  if (loaded.ok() || hasLaneImages()) return loaded;
  return makeStatus(Code::kUnhandledCudaError,
                    "this library was built without a CUDA compiler and has no kernels (%s)",
                    loaded.message().c_str());
}

Result<CudaFunction> LaneGpu::find(DataType type, RedOp op) {
  if (!hasRedOp(type, op))
    return makeStatus(Code::kInvalidArgument, "%s has no %s", dataTypeName(type), redOpName(op));
  const std::lock_guard lock(mutex_);
  CudaFunction& function = functions_[static_cast<size_t>(type)][static_cast<size_t>(op)];
  if (function) return function;
  const LaneImage image = isFloatingPoint(type) ? LaneImage::kFloats : LaneImage::kIntegers;
  HORING_TRY(loadImage(image));
  const std::string name = laneKernelName(type, op);
  const CudaDevice::Current current(*device_);
  HORING_TRY(device_->api().check(
      device_->api().module_function(&function, modules_[static_cast<size_t>(image)], name.c_str()),
      name.c_str()));
  return function;
}

Result<int> LaneGpu::mostResidentBlocks() {
  const CudaApi& api = device_->api();
  int processors = 0, least = INT32_MAX;
  HORING_TRY(api.check(api.device_attribute(&processors, kAttributeProcessors, device_->number()),
                       "asking for a GPU's processors"));
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kRedOps; ++op) {
      if (!hasRedOp(static_cast<DataType>(type), static_cast<RedOp>(op))) continue;
      HORING_ASSIGN(const CudaFunction function, find(static_cast<DataType>(type), static_cast<RedOp>(op)));
      const CudaDevice::Current current(*device_);
      int blocks = 0;
      HORING_TRY(api.check(api.occupancy(&blocks, function, kLaneThreads, 0),
                           "asking how many blocks are resident at once"));
      least = std::min(least, blocks);
    }
  return least * processors;
}

Status LaneGpu::launch(const LaneCalls& calls, const LaneGrid& grid, DataType type, RedOp op,
                       CudaStream stream) {
  HORING_ASSIGN(const CudaFunction function, find(type, op));
  const CudaDevice::Current current(*device_);
  void* parameters[] = {const_cast<LaneCalls*>(&calls)};
  return device_->api().check(
      device_->api().launch(function, static_cast<unsigned>(grid.lanes), static_cast<unsigned>(grid.parts),
                            static_cast<unsigned>(grid.ranks), kLaneThreads, 1, 1, 0, stream, parameters,
                            nullptr),
      "launching the kernel of a collective");
}

}  // namespace horing::cuda
