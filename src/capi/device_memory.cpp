// Detects buffers on a GPU, which the host engine cannot access.
#include "capi/device_memory.h"

#include <utility>

namespace horing {

namespace {

// Null: no driver.
const CudaApi* processApi() {
  const CudaDriver* const driver = processDriver();
  return driver && driver->api().ok() ? &driver->api().value() : nullptr;
}

// Returns `device`, or for -1 the GPU that is current on the calling thread; -1: none.
int gpuOrCurrent(const CudaApi* api, int device) {
  if (!api || device >= 0) return api ? device : -1;
  // Queried first, since it is no error if there is none.
  CudaContext context = nullptr;
  if (api->current_context(&context) != CudaApi::kSuccess || !context) return -1;
  return api->context_device(&device) == CudaApi::kSuccess ? device : -1;
}

std::string placeText(const MemoryPlace& place) {
  return place.kind == MemoryKind::kHost ? "in host memory" : formatString("on GPU %d", place.device);
}

}  // namespace

std::string gpuBus(int device) {
  const CudaApi* const api = processApi();
  device = gpuOrCurrent(api, device);
  if (device < 0) return {};
  const Result<std::string> bus = CudaDevice::busOf(*api, device);
  return bus.ok() ? bus.value() : std::string();
}

std::shared_ptr<const CudaDevice> openGpu(int device) {
  const CudaApi* const api = processApi();
  device = gpuOrCurrent(api, device);
  if (device < 0) return nullptr;
  auto opened = CudaDevice::open(*api, device);
  return opened.ok() ? opened.take() : nullptr;
}

Result<std::optional<int>> gpuOfStream(const CudaDriver& driver, horingStream_t stream) {
  if (stream == kStreamLegacy && gpuOrCurrent(processApi(), -1) < 0) return std::optional<int>();
  HORING_TRY(driver.api().status());
  HORING_ASSIGN(const int device, CudaDevice::ofStream(driver.api().value(), stream));
  return std::optional(device);
}

Result<std::optional<GpuBuffers>> gpuBuffersOf(const Command& command, const CudaDriver& driver,
                                               const Where& where) {
  const std::vector<CommandBuffer> buffers = buffersOf(command, where.rank);
  // The peer of an empty message decides the same way, unless that has a tag: hosts carry all of these.
  if (command.isExchange() && !goesBeside(command) && buffers.empty() && !where.foreign_stream && where.gpu)
    return std::optional(GpuBuffers{*where.gpu});
  std::vector<GpuBuffers::Placed> found;
  std::vector<const void*> pinned;
  for (const CommandBuffer& buffer : buffers) {
    const MemoryPlace place = driver.placeOf(buffer.at);
    // Host and GPU can both access it.
    const bool is_pinned = place.is_pinned && where.foreign_stream;
    if (is_pinned) pinned.push_back(buffer.at);
    if (is_pinned || place.kind == MemoryKind::kManaged) continue;
    found.push_back({buffer, place});
    const auto& [first, first_place] = found.front();
    if (!place.isWith(first_place))
      return makeStatus(Code::kInvalidUsage,
                        "%s %p is %s and %s %p is %s: expected all buffers of a call on one GPU, or none",
                        first.name, first.at, placeText(first_place).c_str(), buffer.name, buffer.at,
                        placeText(place).c_str());
  }
  if (!found.empty() && found.front().place.kind == MemoryKind::kDevice) {
    const int device = found.front().place.device;
    return std::optional(GpuBuffers{device, std::move(found), std::move(pinned)});
  }
  if (!found.empty() || !where.foreign_stream) return std::optional<GpuBuffers>();
  HORING_ASSIGN(const std::optional<int> device, gpuOfStream(driver, where.foreign_stream));
  if (!device) return std::optional<GpuBuffers>();
  return std::optional(GpuBuffers{.device = *device, .pinned = std::move(pinned)});
}

Status placeScalar(Call& call, const CudaDriver& driver, const CudaDevice& gpu) {
  if (!call.factor_at) return {};
  const MemoryPlace place = driver.placeOf(call.factor_at);
  if (place.kind == MemoryKind::kDevice && place.device != gpu.number())
    return makeStatus(Code::kInvalidUsage,
                      "the scalar of op, %p, is %s and the buffers are on GPU %d: expected it there, or in "
                      "host memory",
                      call.factor_at, placeText(place).c_str(), gpu.number());
  if (place.kind != MemoryKind::kHost)
    return gpu.checkContext(place.context, "the scalar of op", call.factor_at);
  call.factor_is_pinned = place.is_pinned;
  if (call.factor_is_pinned) return {};
  call.factor = factorFrom(call.type, call.factor_at);
  call.factor_at = nullptr;
  return {};
}

Status checkHostReaches(const char* name, const void* buffer) {
  const CudaDriver* driver = processDriver();
  if (!driver) return {};
  const MemoryPlace place = driver->placeOf(buffer);
  if (place.kind != MemoryKind::kDevice) return {};
  return makeStatus(Code::kInvalidUsage,
                    "%s %p is memory of GPU %d, and is read by the host: expected host memory", name, buffer,
                    place.device);
}

}  // namespace horing
