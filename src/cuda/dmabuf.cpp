#include "cuda/dmabuf.h"

#include <unistd.h>

namespace horing {

namespace {

// Of cuda.h.
constexpr int kFlushOptions = 117, kWritesOrdering = 118, kDmabufSupported = 124;  // attributes
constexpr int kFlushByHost = 1;
constexpr int kOrderedForOwner = 100;
constexpr int kDmabufFd = 1;
constexpr int kCurrentContext = 0, kToOwner = 100;

// What an old driver does not know, the GPU does not have.
int attributeOf(const CudaDevice& device, int attribute) {
  int value = 0;
  return device.api().device_attribute(&value, attribute, device.number()) == CudaApi::kSuccess ? value : 0;
}

}  // namespace

bool ordersAdapterWrites(const CudaDevice& device) {
  return attributeOf(device, kWritesOrdering) >= kOrderedForOwner;
}

Result<CudaDmabuf> exportDmabuf(const CudaDevice& device, const std::byte* begin, size_t bytes) {
  const CudaApi& api = device.api();
  const auto lacks = [&](const char* what) {
    return makeStatus(Code::kUnhandledCudaError, "GPU %d with this driver and kernel %s", device.number(),
                      what);
  };
  if (!api.range_handle || attributeOf(device, kDmabufSupported) == 0) return lacks("has no dma-buf");
  const bool flushes = api.flush_remote_writes && (attributeOf(device, kFlushOptions) & kFlushByHost) != 0;
  if (!ordersAdapterWrites(device) && !flushes) return lacks("cannot order what adapters write");
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t at = reinterpret_cast<uintptr_t>(begin);
  CudaDmabuf made{.fd = {}, .offset = at % page};
  const uint64_t whole_pages = (made.offset + bytes + page - 1) / page * page;
  int fd = -1;
  const CudaDevice::Current current(device);
  HORING_TRY(
      api.check(api.range_handle(&fd, at - made.offset, whole_pages, kDmabufFd, 0),
                formatString("making a dma-buf of %zu bytes of GPU %d", bytes, device.number()).c_str()));
  made.fd.reset(fd);
  return made;
}

Status flushAdapterWrites(const CudaDevice& device) {
  if (ordersAdapterWrites(device)) return {};
  const CudaDevice::Current current(device);
  return device.api().check(device.api().flush_remote_writes(kCurrentContext, kToOwner),
                            "ordering what adapters wrote");
}

}  // namespace horing
