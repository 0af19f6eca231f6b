#pragma once
// From arguments of the C API to a command.
#include "capi/group.h"

namespace horing {

// A call whose blocks are all of one size, or are no blocks.
Command makeCommand(Collective collective, const void* send, void* recv, size_t count, horingDataType_t type);
// Makes it a reduction by an operation that exists.
Status setOperation(Command& command, horingComm_t comm, horingRedOp_t op);
Command withRoot(Command command, int root);

// The number of each position's block; null: its rank.
Result<const int32_t*> blocksInOrder(horingComm_t comm, horingBlockOrder_t order);
// With blocks in this order.
Result<Command> withOrder(Command command, horingComm_t comm, horingBlockOrder_t order);

// Checks the arguments and launches the command.
Status issue(horingComm_t comm, Command&& command, horingStream_t stream);

}  // namespace horing
