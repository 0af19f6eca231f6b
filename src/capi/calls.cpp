#include "capi/calls.h"

#include "capi/group.h"
#include "comm/arguments.h"

namespace horing {

Command makeCommand(Collective collective, const void* send, void* recv, size_t count,
                    horingDataType_t type) {
  return makeReduction(collective, send, recv, count, type, horingSum);
}

Command makeReduction(Collective collective, const void* send, void* recv, size_t count,
                      horingDataType_t type, horingRedOp_t op) {
  Command command;
  command.collective = collective;
  command.call.input = static_cast<const std::byte*>(send);
  command.call.output = static_cast<std::byte*>(recv);
  command.call.count = count;
  command.call.type = static_cast<DataType>(type);
  command.call.op = static_cast<RedOp>(op);
  return command;
}

Command withRoot(Command command, int root) {
  command.call.root = root;
  return command;
}

namespace {

Status check(horingComm_t comm, const Command& command) {
  HORING_TRY(checkHandle(comm));
  const Communicator& communicator = *comm->communicator;
  if (command.transfers.empty())
    return checkArguments(command.collective, command.call, communicator.rank(), communicator.ranks());
  for (const Transfer& transfer : command.transfers)
    HORING_TRY(checkTransfer(transfer, communicator.ranks()));
  return {};
}

}  // namespace

Status issue(horingComm_t comm, Command command, horingStream_t stream) {
  HORING_TRY(check(comm, command));
  return launch(comm, std::move(command), stream);
}

}  // namespace horing
