#include "cuda/adapter_memory.h"

#include <unistd.h>

namespace horing {

namespace {

// From cuda.h.
constexpr int kFlushOptions = 117, kWritesOrdering = 118, kDmabufSupported = 124;  // attributes
constexpr int kFlushByHost = 1;
constexpr int kOrderedForOwner = 100;
constexpr int kDmabufFd = 1;
constexpr int kCurrentContext = 0, kToOwner = 100;

// An attribute that an old driver does not know counts as unsupported.
int attributeOf(const CudaDevice& device, int attribute) {
  int value = 0;
  return device.api().device_attribute(&value, attribute, device.number()) == CudaApi::kSuccess ? value : 0;
}

Result<AdapterMemory> exportDmabuf(const CudaDevice& device, const std::byte* begin, size_t bytes) {
  const CudaApi& api = device.api();
  if (!api.range_handle || attributeOf(device, kDmabufSupported) == 0)
    return makeStatus(Code::kUnhandledCudaError, "GPU %d with this driver and kernel has no dma-buf",
                      device.number());
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t at = reinterpret_cast<uintptr_t>(begin);
  AdapterMemory made;
  made.offset = at % page;
  const uint64_t whole_pages = (made.offset + bytes + page - 1) / page * page;
  int fd = -1;
  const CudaDevice::Current current(device);
  HORING_TRY(
      api.check(api.range_handle(&fd, at - made.offset, whole_pages, kDmabufFd, 0),
                formatString("making a dma-buf of %zu bytes of GPU %d", bytes, device.number()).c_str()));
  made.dmabuf.reset(fd);
  return made;
}

}  // namespace

// The current and the old name of the module.
AdapterWays AdapterWays::of(std::string_view choice, const std::string& sys) {
  if (choice != "auto") return {.dmabuf = choice == "dmabuf", .by_address = choice == "peermem"};
  const auto isThere = [&](const char* path) { return ::access((sys + path).c_str(), F_OK) == 0; };
  return {.dmabuf = true,
          .by_address = isThere("/module/nvidia_peermem") || isThere("/kernel/mm/memory_peers/nv_mem")};
}

bool ordersAdapterWrites(const CudaDevice& device) {
  return attributeOf(device, kWritesOrdering) >= kOrderedForOwner;
}

Result<AdapterMemory> adapterMemory(const CudaDevice& device, const std::byte* begin, size_t bytes,
                                    const AdapterWays& ways) {
  const CudaApi& api = device.api();
  const bool flushes = api.flush_remote_writes && (attributeOf(device, kFlushOptions) & kFlushByHost) != 0;
  if (!ordersAdapterWrites(device) && !flushes)
    return makeStatus(Code::kUnhandledCudaError,
                      "GPU %d with this driver and kernel cannot order writes of adapters", device.number());
  Result<AdapterMemory> made =
      ways.dmabuf ? exportDmabuf(device, begin, bytes)
                  : makeStatus(Code::kUnhandledCudaError, "HORING_IB_GPU_MEMORY keeps adapters from it");
  if (!ways.by_address) return made;
  if (!made.ok()) made = AdapterMemory();
  made.value().by_address = true;
  return made;
}

Status flushAdapterWrites(const CudaDevice& device) {
  if (ordersAdapterWrites(device)) return {};
  const CudaDevice::Current current(device);
  return device.api().check(device.api().flush_remote_writes(kCurrentContext, kToOwner),
                            "ordering writes of adapters");
}

}  // namespace horing
