#pragma once
// From arguments of the C API to a command.
#include "capi/group.h"

namespace horing {

// Sets up a call with blocks of one size, or without blocks.
inline void setCall(Call& call, Collective collective, const void* send, void* recv, size_t count,
                    horingDataType_t type) {
  call.collective = collective;
  call.input = static_cast<const std::byte*>(send);
  call.output = static_cast<std::byte*>(recv);
  call.count = count;
  call.type = static_cast<DataType>(type);
}
inline Call makeCall(Collective collective, const void* send, void* recv, size_t count,
                     horingDataType_t type) {
  Call call;
  setCall(call, collective, send, recv, count, type);
  return call;
}
// Sets the reduction operation, which must be valid.
Status setOperation(Call& call, horingComm_t comm, horingRedOp_t op);

// The number of each position's block; null: the rank.
Result<const int32_t*> blocksInOrder(horingComm_t comm, horingBlockOrder_t order);

// The bytes of the elements of a message.
Result<size_t> bytesOf(size_t count, horingDataType_t type);

// Checks the arguments and launches the command.
Status issue(horingComm_t comm, Command&& command, horingStream_t stream);
inline Status issue(horingComm_t comm, const Call& call, horingStream_t stream) {
  return issue(comm, Command(CollectiveCommand{call}), stream);
}

}  // namespace horing
