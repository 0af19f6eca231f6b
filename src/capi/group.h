#pragma once
// Calls between horingGroupStart and horingGroupEnd: kept by the calling thread, launched together.
#include <functional>

#include "base/no_memory.h"
#include "capi/handle.h"

namespace horing {

// Whether the calling thread is between start and end.
bool groupIsOpen();
// Where an entry point hands over what it has checked: launches it, or keeps it for the open group. `stream`: NULL for
// an operation that is complete on return.
Status launch(horingComm_t comm, Command&& command, horingStream_t stream);
// Out of what a communicator is made, null: of nothing, and where its handle is written.
struct InitPlace {
  horingComm_t parent;
  horingComm_t* made;
};
// Something that makes a communicator. All those of a group are carried out at once, but those of one parent in turn. If one
// fails, the others are aborted.
void addInitToGroup(std::function<Status()> init, InitPlace place);
// A call of the open group was refused: horingGroupEnd shall say so, too, and launch nothing.
void refuseGroup(const Status& why);

// guarded() for calls that a group holds: an error refuses the open group, too.
template <typename Body>
horingResult_t guardedLaunch(horingComm_t comm, Body body) noexcept {
  return guarded(comm, [&]() -> Status {
    Status status = withoutExceptions(body);
    if (!status.ok()) refuseGroup(status);
    return status;
  });
}

}  // namespace horing
