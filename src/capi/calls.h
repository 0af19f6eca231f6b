#pragma once
// From arguments of the C API to a command.
#include "capi/group.h"

namespace horing {

// A call whose blocks are all of one size, or are no blocks.
Command makeCommand(Collective collective, const void* send, void* recv, size_t count, horingDataType_t type);
// Of a reduction by an operation that exists.
Result<Command> withOperation(Command command, horingComm_t comm, horingRedOp_t op);
Command withRoot(Command command, int root);

// Checks the arguments and launches the command.
Status issue(horingComm_t comm, Command command, horingStream_t stream);

}  // namespace horing
