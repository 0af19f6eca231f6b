#pragma once
// The lines "Init START" and "Init COMPLETE" of NCCL's log, which tools parse, for each communicator that this library makes.
#include <cstdint>

#include "nccl/face.h"

namespace horing::nccl {

// The call that makes a communicator, as its lines name it.
struct InitCall {
  const char* function;
  int rank = -1, ranks = 0;  // of a child: known once it is made
  uint64_t id = 0;           // equal on its ranks
  int gpu = -1;              // -1: the current one
  ncclComm_t parent = nullptr;
  int color = 0, key = 0;
};

uint64_t hashOf(const ncclUniqueId& id);

// After a call of a group has succeeded, which has written the handle to *place if it is not that of a child. START is logged before the
// rank waits for others; for a child, whose rank is not known before, once it is made.
void logBegin(ncclComm_t* place, const InitCall& call) noexcept;
// At the end of the group: COMPLETE for what it has made, at once or, if it is not blocking, when logProgress() finds it made.
void logEnd(ncclResult_t result) noexcept;
// Whenever the caller may have learnt that a communicator is made.
void logProgress() noexcept;
// Before a communicator ends.
void logForget(ncclComm_t comm) noexcept;

}  // namespace horing::nccl
