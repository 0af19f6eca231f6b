#include "cuda/ipc.h"

#include <utility>

namespace horing {

namespace {

constexpr unsigned int kEnablePeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

Status checkFunctions(const CudaApi& api) {
  if (api.ipc_handle && api.ipc_open && api.ipc_close && api.address_range) return {};
  return makeStatus(Code::kUnhandledCudaError, "this CUDA driver shares no memory between processes");
}

// The size of the allocation that begins at this address; 0: none does.
size_t allocatedBytes(const CudaApi& api, CudaAddress at) {
  CudaAddress begin = 0;
  size_t bytes = 0;
  return api.address_range(&begin, &bytes, at) == CudaApi::kSuccess && begin == at ? bytes : 0;
}

}  // namespace

Result<CudaIpcHandle> shareMemory(const CudaDevice& device, const std::byte* begin) {
  const CudaApi& api = device.api();
  HORING_TRY(checkFunctions(api));
  const CudaDevice::Current current(device);
  const CudaAddress at = reinterpret_cast<uintptr_t>(begin);
  // A handle names a whole allocation.
  if (allocatedBytes(api, at) == 0)
    return makeStatus(Code::kUnhandledCudaError, "no allocation of GPU %d begins at %p", device.number(),
                      static_cast<const void*>(begin));
  CudaIpcHandle handle{};
  HORING_TRY(api.check(api.ipc_handle(&handle, at),
                       formatString("sharing memory of GPU %d", device.number()).c_str()));
  return handle;
}

Result<std::unique_ptr<OpenedMemory>> OpenedMemory::open(std::shared_ptr<const CudaDevice> device,
                                                         const CudaIpcHandle& handle, size_t bytes) {
  const CudaApi& api = device->api();
  HORING_TRY(checkFunctions(api));
  const CudaDevice::Current current(*device);
  CudaAddress at = 0;
  HORING_TRY(
      api.check(api.ipc_open(&at, handle, kEnablePeerAccess),
                formatString("opening memory of another process on GPU %d", device->number()).c_str()));
  std::unique_ptr<OpenedMemory> opened(new OpenedMemory(std::move(device), at));
  if (const size_t there = allocatedBytes(api, at); there < bytes)
    return makeStatus(Code::kUnhandledCudaError, "another process shares %zu bytes of a GPU instead of %zu",
                      there, bytes);
  return opened;
}

OpenedMemory::~OpenedMemory() {
  const CudaDevice::Current current(*device_);
  device_->api().ipc_close(at_);
}

}  // namespace horing
