#include "cuda/ipc.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/per_process.h"

namespace horing {

struct SharedMemory::Allocation {
  std::shared_ptr<const CudaDevice> device;
  CudaAddress begin = 0;
  std::shared_ptr<void> owner{};
};

// What ranks of this process share at the moment. Any thread.
class SharedHere {
 public:
  using Allocation = std::shared_ptr<SharedMemory::Allocation>;
  void add(const CudaIpcHandle& handle, Allocation allocation) {
    const std::lock_guard lock(mutex_);
    allocations_.emplace(handle, std::move(allocation));
  }
  void remove(const CudaIpcHandle& handle, const Allocation& allocation) {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = allocations_.equal_range(handle);
    const auto found = std::find_if(first, last, [&](const auto& each) { return each.second == allocation; });
    if (found != last) allocations_.erase(found);
  }
  // Null: another process shares it, or nobody.
  Allocation find(const CudaIpcHandle& handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(handle);
    return found == allocations_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::multimap<CudaIpcHandle, Allocation> allocations_;
};

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

Result<std::unique_ptr<SharedMemory>> SharedMemory::make(std::shared_ptr<const CudaDevice> device,
                                                         const std::byte* begin) {
  const CudaApi& api = device->api();
  HORING_TRY(checkFunctions(api));
  const CudaDevice::Current current(*device);
  const CudaAddress at = reinterpret_cast<uintptr_t>(begin);
  // A handle names a whole allocation.
  if (allocatedBytes(api, at) == 0)
    return makeStatus(Code::kUnhandledCudaError, "no allocation of GPU %d begins at %p", device->number(),
                      static_cast<const void*>(begin));
  CudaIpcHandle handle{};
  HORING_TRY(api.check(api.ipc_handle(&handle, at),
                       formatString("sharing memory of GPU %d", device->number()).c_str()));
  auto allocation = std::make_shared<Allocation>(Allocation{std::move(device), at});
  perProcess<SharedHere>().add(handle, allocation);
  return std::unique_ptr<SharedMemory>(new SharedMemory(handle, std::move(allocation)));
}

SharedMemory::~SharedMemory() {
  perProcess<SharedHere>().remove(handle_, allocation_);
}

void SharedMemory::keep(std::shared_ptr<void> owner) {
  allocation_->owner = std::move(owner);
}

Result<std::unique_ptr<OpenedMemory>> OpenedMemory::open(std::shared_ptr<const CudaDevice> device,
                                                         const CudaIpcHandle& handle, size_t bytes) {
  const CudaApi& api = device->api();
  HORING_TRY(checkFunctions(api));
  const CudaDevice::Current current(*device);
  auto of_this_process = perProcess<SharedHere>().find(handle);
  CudaAddress at = 0;
  if (of_this_process) {
    HORING_TRY(device->reach(*of_this_process->device));
    at = of_this_process->begin;
  } else {
    HORING_TRY(
        api.check(api.ipc_open(&at, handle, kEnablePeerAccess),
                  formatString("opening memory of another process on GPU %d", device->number()).c_str()));
  }
  std::unique_ptr<OpenedMemory> opened(new OpenedMemory(std::move(device), at, std::move(of_this_process)));
  if (const size_t there = allocatedBytes(api, at); there < bytes)
    return makeStatus(Code::kUnhandledCudaError, "another rank shares %zu bytes of a GPU instead of %zu",
                      there, bytes);
  return opened;
}

OpenedMemory::~OpenedMemory() {
  if (of_this_process_ || is_leaked_) return;
  const CudaDevice::Current current(*device_);
  device_->api().ipc_close(at_);
}

}  // namespace horing
