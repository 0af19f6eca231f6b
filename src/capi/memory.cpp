// Memory that peers of this node can read, and the registration of buffers.
#include "capi/device_memory.h"
#include "capi/handle.h"
#include "cuda/device.h"
#include "transport/memory/segment_list.h"

namespace horing {

SegmentList& processSegments() {
  static auto* segments = new SegmentList;  // never destroyed: memory may be freed during exit
  return *segments;
}

namespace {

Status allocate(void** ptr, size_t size) {
  if (!ptr) return makeStatus(Code::kInvalidArgument, "ptr is NULL: expected where to put the address");
  if (size == 0) {
    *ptr = nullptr;
    return {};
  }
  HORING_ASSIGN(*ptr, processSegments().allocate(size));
  return {};
}

Status registerBuffer(horingComm_t comm, void* buff, size_t size, void** handle) {
  HORING_TRY(checkHandle(comm));
  if (!buff || !handle)
    return makeStatus(Code::kInvalidArgument, "%s is NULL: expected %s", buff ? "handle" : "buff",
                      buff ? "where to put the handle" : "a buffer");
  if (size == 0) return makeStatus(Code::kInvalidArgument, "size is 0: expected the bytes of buff");
  auto* const memory = static_cast<std::byte*>(buff);
  const CudaDriver* const driver = processDriver();
  const MemoryPlace place = driver ? driver->placeOf(buff) : MemoryPlace{};
  std::shared_ptr<const CudaDevice> gpu;
  if (place.kind == MemoryKind::kDevice) {
    HORING_TRY(driver->api().status());
    HORING_ASSIGN(gpu, CudaDevice::open(driver->api().value(), place.device));
  }
  HORING_ASSIGN(*handle, comm->communicator->reach().registerMemory(memory, size, gpu.get()));
  if (*handle) ++comm->registrations;
  return {};
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingMemAlloc(void** ptr, size_t size) {
  return horing::guarded(nullptr, [&] { return horing::allocate(ptr, size); });
}

horingResult_t horingMemFree(void* ptr) {
  using namespace horing;
  return guarded(nullptr, [&] { return ptr ? processSegments().free(ptr) : Status(); });
}

horingResult_t horingCommRegister(const horingComm_t comm, void* buff, size_t size, void** handle) {
  return horing::guarded(comm, [&] { return horing::registerBuffer(comm, buff, size, handle); });
}

horingResult_t horingCommDeregister(const horingComm_t comm, void* handle) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!handle) return {};
    HORING_TRY(comm->communicator->reach().deregister(handle));
    --comm->registrations;
    return {};
  });
}

}  // extern "C"
