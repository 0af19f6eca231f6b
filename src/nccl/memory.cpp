// Memory and registration.
#include "nccl/current_gpu.h"
#include "nccl/face.h"

using namespace horing::nccl;

NCCL_FACE(ncclResult_t, MemAlloc, (void** ptr, size_t size)) {
  if (!ptr) return refuse(ncclInvalidArgument, "ptr is NULL: expected where to put the address");
  const CurrentGpu* const gpu = CurrentGpu::find();
  if (!gpu || size == 0) return answer(horingMemAlloc(ptr, size));
  *ptr = gpu->allocate(size);
  return *ptr ? ncclSuccess
              : refuse(ncclUnhandledCudaError, "the current GPU has no %zu bytes (cuMemAlloc)", size);
}

NCCL_FACE(ncclResult_t, MemFree, (void* ptr)) {
  const horingResult_t of_host = horingMemFree(ptr);
  const CurrentGpu* const gpu = of_host == horingInvalidArgument ? CurrentGpu::find() : nullptr;
  return gpu && gpu->release(ptr) ? ncclSuccess : answer(of_host);
}

NCCL_FACE(ncclResult_t, CommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle)) {
  return answer(horingCommRegister(own(comm), buff, size, handle));
}

NCCL_FACE(ncclResult_t, CommDeregister, (const ncclComm_t comm, void* handle)) {
  return answer(horingCommDeregister(own(comm), handle));
}
