// Collectives whose blocks may be in another order than rank order.
#include <utility>

#include "capi/calls.h"

namespace horing {
namespace {

Status blockOf(horingComm_t comm, horingBlockOrder_t order, int rank, int* block) {
  HORING_ASSIGN(const int32_t* const blocks, blocksInOrder(comm, order));
  if (!block) return makeStatus(Code::kInvalidArgument, "block is NULL: expected where to put the number");
  const Membership& membership = comm->communicator->membership();
  if (rank < 0 || rank >= membership.ranks())
    return makeStatus(Code::kInvalidArgument, "rank is %d: expected 0 to %d", rank, membership.ranks() - 1);
  *block = blocks ? blocks[membership.placement().map().positionOfRank(rank)] : rank;
  return {};
}

Status groupOf(horingComm_t comm, int rank, int* group, int* local_index) {
  HORING_TRY(checkHandle(comm));
  if (!group || !local_index)
    return makeStatus(Code::kInvalidArgument, "%s is NULL: expected where to put the number",
                      group ? "localIndex" : "group");
  const Membership& membership = comm->communicator->membership();
  if (rank < 0 || rank >= membership.ranks())
    return makeStatus(Code::kInvalidArgument, "rank is %d: expected 0 to %d", rank, membership.ranks() - 1);
  *group = membership.placement().map().groupOf(rank);
  *local_index = membership.placement().map().localIndexOf(rank);
  return {};
}

}  // namespace
}  // namespace horing

extern "C" {

horingResult_t horingCommBlock(const horingComm_t comm, horingBlockOrder_t order, int rank, int* block) {
  return horing::guarded(comm, [&] { return horing::blockOf(comm, order, rank, block); });
}

horingResult_t horingCommGroup(const horingComm_t comm, int rank, int* group, int* localIndex) {
  return horing::guarded(comm, [&] { return horing::groupOf(comm, rank, group, localIndex); });
}

horingResult_t horingReduceScatterOrdered(const void* sendbuff, void* recvbuff, size_t recvcount,
                                          horingDataType_t datatype, horingRedOp_t op,
                                          horingBlockOrder_t order, horingComm_t comm,
                                          horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&]() -> Status {
    Call call = makeCall(Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype);
    HORING_TRY(setOperation(call, comm, op));
    HORING_ASSIGN(call.block_of_position, blocksInOrder(comm, order));
    return issue(comm, call, stream);
  });
}

horingResult_t horingAllGatherOrdered(const void* sendbuff, void* recvbuff, size_t sendcount,
                                      horingDataType_t datatype, horingBlockOrder_t order, horingComm_t comm,
                                      horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&]() -> Status {
    Call call = makeCall(Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype);
    HORING_ASSIGN(call.block_of_position, blocksInOrder(comm, order));
    return issue(comm, call, stream);
  });
}

}  // extern "C"
