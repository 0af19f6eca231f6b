// Windows, puts and signals.
#include "nccl/face.h"

using namespace horing::nccl;

namespace {
horingWindow_t own(ncclWindow_t window) {
  return reinterpret_cast<horingWindow_t>(window);
}
}  // namespace

NCCL_FACE(ncclResult_t, CommWindowRegister,
          (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  return answer(
      horingCommWindowRegister(own(comm), buff, size, reinterpret_cast<horingWindow_t*>(win), winFlags));
}

NCCL_FACE(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  return answer(horingCommWindowDeregister(own(comm), own(win)));
}

NCCL_FACE(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr)) {
  return answer(horingWinGetUserPtr(own(comm), own(win), outUserPtr));
}

NCCL_FACE(ncclResult_t, PutSignal,
          (const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
           size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
           cudaStream_t stream)) {
  return answer(horingPutSignal(localbuff, count, own(datatype), peer, own(peerWin), peerWinOffset, sigIdx,
                                ctx, flags, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, Signal,
          (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream)) {
  return answer(horingSignal(peer, sigIdx, ctx, flags, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, WaitSignal,
          (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream)) {
  static_assert(sizeof(horingWaitSignalDesc_t) == sizeof *signalDescs);
  return answer(horingWaitSignal(nDesc, reinterpret_cast<horingWaitSignalDesc_t*>(signalDescs), own(comm),
                                 own(stream)));
}
