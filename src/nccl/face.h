#pragma once
// Defines every function of nccl.h twice: with a p before its name, for profilers to call, and under its own name as a weak alias, which
// profilers may override.
#include "horing/horing.h"
#include "nccl/nccl.h"
#include "nccl/nccl_device.h"

#define NCCL_FACE(result, name, parameters)                                            \
  extern "C" __attribute__((weak, alias("pnccl" #name))) result nccl##name parameters; \
  extern "C" result pnccl##name parameters

namespace horing::nccl {

inline horingComm_t own(ncclComm_t comm) {
  return reinterpret_cast<horingComm_t>(comm);
}
inline horingComm_t* own(ncclComm_t* comm) {
  return reinterpret_cast<horingComm_t*>(comm);
}
inline horingDataType_t own(ncclDataType_t type) {
  return static_cast<horingDataType_t>(type);
}
inline horingRedOp_t own(ncclRedOp_t op) {
  return static_cast<horingRedOp_t>(op);
}
// In CUDA, NULL is the default stream (cudaStreamLegacy), which orders operations and does not block.
inline horingStream_t own(cudaStream_t stream) {
  return stream ? static_cast<horingStream_t>(stream) : reinterpret_cast<horingStream_t>(0x1);
}
inline horingUniqueId own(const ncclUniqueId& id) {
  static_assert(sizeof(horingUniqueId) == sizeof id);
  return reinterpret_cast<const horingUniqueId&>(id);
}

// Whether the calling thread is between ncclGroupStart and ncclGroupEnd.
bool groupIsOpen();
// Records a refused call of an open group: ncclGroupEnd returns the error, too, and launches nothing. Returns `why`.
ncclResult_t refuseGroup(ncclResult_t why) noexcept;

// The version that ncclGetVersion returns (HORING_NCCL_LEVEL).
int level();

// The code, as known to callers of this version.
ncclResult_t translated(horingResult_t result);
// Converts the result of a function of horing.h, called just before. Keeps the error text for ncclGetLastError.
ncclResult_t answer(horingResult_t result) noexcept;
// An error of this library, with its text.
ncclResult_t refuse(ncclResult_t code, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
// The error of functions that horing does not have. `instead`: what to use instead.
ncclResult_t notServed(const char* name, const char* instead) noexcept;
// Keeps the text of a communicator's error for ncclGetLastError of all threads.
void keepErrorOf(ncclComm_t comm) noexcept;

}  // namespace horing::nccl
