#pragma once
// Calls between horingGroupStart and horingGroupEnd: kept by the calling thread, launched together.
#include <functional>

#include "base/no_memory.h"
#include "capi/handle.h"

namespace horing {

// Whether the calling thread is between start and end.
bool groupIsOpen();
// Called by entry points with a checked command: launches it, or keeps it for the open group. `stream`: NULL for an operation that is
// complete on return.
Status launch(horingComm_t comm, Command&& command, horingStream_t stream);
// The parent of a new communicator (null: none), and where its handle is written (null: no handle is).
struct InitPlace {
  horingComm_t parent;
  horingComm_t* made;
};
// Adds a call that makes a communicator. The calls of a group run concurrently, those with one parent sequentially. If one fails, the
// others are aborted.
void addInitToGroup(std::function<Status()> init, InitPlace place);
// For a deregistered window: once the open group has run, its calling thread closes windows of the communicator.
void closeWindowsAfterGroup(horingComm_t comm);
// Records that a call of the open group was refused: horingGroupEnd returns the error, too, and launches nothing.
void refuseGroup(const Status& why);

// guarded() for calls that may be grouped: an error also refuses the open group.
template <typename Body>
horingResult_t guardedLaunch(horingComm_t comm, Body body) noexcept {
  return guarded(comm, [&]() -> Status {
    Status status = withoutExceptions(body);
    if (!status.ok()) refuseGroup(status);
    return status;
  });
}

}  // namespace horing
