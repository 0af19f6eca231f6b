// Memory, registration, windows and operations on windows.
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

NCCL_FACE(ncclResult_t, CommWindowRegister,
          (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int)) {
  int ranks = 0;
  if (const ncclResult_t asked = answer(horingCommCount(own(comm), &ranks)); asked != ncclSuccess)
    return asked;
  if (!buff || !win || size == 0)
    return refuse(ncclInvalidArgument,
                  "buff or win is NULL, or size 0: expected a buffer and where to put the window");
  *win = nullptr;
  return ncclSuccess;
}

namespace {
ncclResult_t noWindow(const char* name) {
  return refuse(
      ncclInvalidArgument,
      "%s needs a window, and there are none: ncclCommWindowRegister gives NULL, since peers do not map "
      "each other's memory",
      name);
}
}  // namespace

NCCL_FACE(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  int ranks = 0;
  if (const ncclResult_t asked = answer(horingCommCount(own(comm), &ranks)); asked != ncclSuccess)
    return asked;
  return win ? noWindow("ncclCommWindowDeregister") : ncclSuccess;
}

NCCL_FACE(ncclResult_t, WinGetUserPtr, (ncclComm_t, ncclWindow_t, void**)) {
  return noWindow("ncclWinGetUserPtr");
}

NCCL_FACE(ncclResult_t, PutSignal,
          (const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned int, ncclComm_t,
           cudaStream_t)) {
  return refuseGroup(noWindow("ncclPutSignal"));
}

NCCL_FACE(ncclResult_t, Signal, (int, int, int, unsigned int, ncclComm_t, cudaStream_t)) {
  return refuseGroup(noWindow("ncclSignal"));
}

NCCL_FACE(ncclResult_t, WaitSignal, (int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t)) {
  return refuseGroup(noWindow("ncclWaitSignal"));
}
