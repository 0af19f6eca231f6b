#pragma once
// How every function of nccl.h is written: defined with a p before its name, as which profilers call it, and under its own name as
// a weak one, which they may define themselves.
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
inline horingStream_t own(cudaStream_t stream) {
  return static_cast<horingStream_t>(stream);
}
inline horingUniqueId own(const ncclUniqueId& id) {
  static_assert(sizeof(horingUniqueId) == sizeof id);
  return reinterpret_cast<const horingUniqueId&>(id);
}

// Whether the calling thread is between ncclGroupStart and ncclGroupEnd.
bool groupIsOpen();
// What this face refuses of an open group, as horing does: ncclGroupEnd shall say so, too, and launch nothing. Returns `why`.
ncclResult_t refuseGroup(ncclResult_t why) noexcept;

// The level that ncclGetVersion tells (HORING_NCCL_LEVEL).
int level();

// The code that callers of this level know.
ncclResult_t translated(horingResult_t result);
// Of what a function of horing.h has answered just now. Keeps the text of a failure for ncclGetLastError.
ncclResult_t answer(horingResult_t result) noexcept;
// An answer of this face, with its text.
ncclResult_t refuse(ncclResult_t code, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
// That of functions which horing does not have. `instead`: what to do.
ncclResult_t notServed(const char* name, const char* instead) noexcept;
// Keeps the text of a communicator's error for ncclGetLastError of all threads.
void keepErrorOf(ncclComm_t comm) noexcept;

}  // namespace horing::nccl
