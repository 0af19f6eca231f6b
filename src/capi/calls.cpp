#include "capi/calls.h"

#include "capi/group.h"
#include "comm/arguments.h"

namespace horing {

Command makeCommand(Collective collective, const void* send, void* recv, size_t count,
                    horingDataType_t type) {
  Command command;
  command.collective = collective;
  command.call.input = static_cast<const std::byte*>(send);
  command.call.output = static_cast<std::byte*>(recv);
  command.call.count = count;
  command.call.type = static_cast<DataType>(type);
  return command;
}

Command withRoot(Command command, int root) {
  command.call.root = root;
  return command;
}

Result<const int32_t*> blocksInOrder(horingComm_t comm, horingBlockOrder_t order) {
  HORING_TRY(checkHandle(comm));
  if (order == horingRankMajor) return nullptr;
  if (order == horingRailMajor) return comm->communicator->railMajorBlocks();
  return makeStatus(Code::kInvalidArgument,
                    "order is %d: expected horingRankMajor (0) or horingRailMajor (1)",
                    static_cast<int>(order));
}

namespace {

Status setOperation(horingComm_t comm, horingRedOp_t number, Call& call) {
  HORING_TRY(checkHandle(comm));
  if (ReductionOps::mayHave(number)) {
    HORING_ASSIGN(const PreMulSum made, comm->reduction_ops.find(number));
    if (made.type != call.type)
      return makeStatus(Code::kInvalidArgument,
                        "datatype is %d, and op was made for %s: expected the same type in both",
                        static_cast<int>(call.type), dataTypeName(made.type));
    call.op = RedOp::kPreMulSum;
    call.factor = made.factor;
    call.factor_at = made.factor_at;
    return {};
  }
  for (int op = 0; op < static_cast<int>(RedOp::kPreMulSum); ++op) {
    call.op = static_cast<RedOp>(op);
    if (redOpNumber(call.op) == static_cast<int>(number)) return {};
  }
  return makeStatus(Code::kInvalidArgument,
                    "op is %d: expected horingSum (0) to horingAvg (4), horingBitAnd, horingBitOr, "
                    "horingBitXor, or one from horingRedOpCreatePreMulSum",
                    static_cast<int>(number));
}

Status check(horingComm_t comm, const Command& command) {
  HORING_TRY(checkHandle(comm));
  const Communicator& communicator = *comm->communicator;
  if (command.transfers.empty())
    return checkArguments(
        command.collective, command.call,
        {communicator.rank(), communicator.ranks(), communicator.positionOf(communicator.rank())});
  for (const Transfer& transfer : command.transfers)
    HORING_TRY(checkTransfer(transfer, communicator.ranks()));
  return {};
}

}  // namespace

Status issue(horingComm_t comm, Command command, horingStream_t stream) {
  HORING_TRY(check(comm, command));
  return launch(comm, std::move(command), stream);
}

Result<Command> withOperation(Command command, horingComm_t comm, horingRedOp_t op) {
  HORING_TRY(setOperation(comm, op, command.call));
  return command;
}

Result<Command> withOrder(Command command, horingComm_t comm, horingBlockOrder_t order) {
  HORING_ASSIGN(command.call.block_of_position, blocksInOrder(comm, order));
  return command;
}

}  // namespace horing
