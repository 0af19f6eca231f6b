// The collectives of include/horing/horing.h with blocks of different sizes.
#include <utility>

#include "capi/calls.h"

namespace horing {

namespace {

// The caller's block sizes and offsets of one buffer; offsets NULL: contiguous.
struct Given {
  const char* name;
  const size_t* counts;
  const size_t* offsets;
};

size_t ranksOf(horingComm_t comm) {
  return static_cast<size_t>(comm->communicator->membership().ranks());
}

// Copies counts and offsets to a table, so that the caller's arrays need not outlive the call.
Status copyTable(const Given& given, size_t ranks, size_t* table) {
  if (!given.counts)
    return makeStatus(Code::kInvalidArgument, "%s is NULL: expected the elements of each rank's block",
                      given.name);
  size_t offset = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    table[rank] = given.counts[rank];
    // The offset of an empty block is ignored.
    const bool is_empty = given.counts[rank] == 0;
    table[ranks + rank] = is_empty ? 0 : given.offsets ? given.offsets[rank] : offset;
    if (__builtin_add_overflow(offset, given.counts[rank], &offset))
      return makeStatus(Code::kInvalidArgument, "%s: the blocks do not fit into memory", given.name);
  }
  return {};
}

enum class Tables { kNone, kInput, kOutput, kBoth };

// Issues `call` with the blocks of its buffers.
Status issueUneven(horingComm_t comm, const Call& call, std::pair<Given, Given> given, Tables tables,
                   horingStream_t stream) {
  HORING_TRY(checkHandle(comm));
  const size_t ranks = ranksOf(comm);
  CollectiveCommand command(call, std::vector<size_t>(4 * ranks));
  command.call.uneven = true;
  size_t* const at = command.tables.data();
  if (tables == Tables::kInput || tables == Tables::kBoth) {
    HORING_TRY(copyTable(given.first, ranks, at));
    command.call.input_blocks = {at, at + ranks};
  }
  if (tables == Tables::kOutput || tables == Tables::kBoth) {
    HORING_TRY(copyTable(given.second, ranks, at + 2 * ranks));
    command.call.output_blocks = {at + 2 * ranks, at + 3 * ranks};
  }
  return issue(comm, Command(std::move(command)), stream);
}

Call withRoot(Call call, int root) {
  call.root = root;
  return call;
}

bool isRoot(horingComm_t comm, int root) {
  return checkHandle(comm).ok() && comm->communicator->membership().rank() == root;
}

// This rank's block size in a table that may be missing; a missing table is refused later.
size_t ownCount(horingComm_t comm, const size_t* counts) {
  return checkHandle(comm).ok() && counts ? counts[comm->communicator->membership().rank()] : 0;
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                const size_t* recvcounts, const size_t* recvdispls, horingDataType_t datatype,
                                horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueUneven(comm, makeCall(Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype),
                       {{}, {"recvcounts", recvcounts, recvdispls}}, Tables::kOutput, stream);
  });
}

horingResult_t horingReduceScatterV(const void* sendbuff, const size_t* sendcounts, const size_t* senddispls,
                                    void* recvbuff, horingDataType_t datatype, horingRedOp_t op,
                                    horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&]() -> Status {
    const size_t own = ownCount(comm, sendcounts);
    Call call = makeCall(Collective::kReduceScatter, sendbuff, recvbuff, own, datatype);
    HORING_TRY(setOperation(call, comm, op));
    return issueUneven(comm, call, {{"sendcounts", sendcounts, senddispls}, {}}, Tables::kInput, stream);
  });
}

horingResult_t horingGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                             const size_t* recvdispls, horingDataType_t datatype, int root, horingComm_t comm,
                             horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueUneven(comm,
                       withRoot(makeCall(Collective::kGather, sendbuff, recvbuff, sendcount, datatype), root),
                       {{}, {"recvcounts", recvcounts, recvdispls}},
                       isRoot(comm, root) ? Tables::kOutput : Tables::kNone, stream);
  });
}

horingResult_t horingScatterV(const void* sendbuff, const size_t* sendcounts, const size_t* senddispls,
                              void* recvbuff, size_t recvcount, horingDataType_t datatype, int root,
                              horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueUneven(
        comm, withRoot(makeCall(Collective::kScatter, sendbuff, recvbuff, recvcount, datatype), root),
        {{"sendcounts", sendcounts, senddispls}, {}}, isRoot(comm, root) ? Tables::kInput : Tables::kNone,
        stream);
  });
}

horingResult_t horingAlltoAllV(const void* sendbuff, const size_t* sendcounts, const size_t* senddispls,
                               void* recvbuff, const size_t* recvcounts, const size_t* recvdispls,
                               horingDataType_t datatype, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    const size_t own = ownCount(comm, sendcounts);
    return issueUneven(comm, makeCall(Collective::kAllToAll, sendbuff, recvbuff, own, datatype),
                       {{"sendcounts", sendcounts, senddispls}, {"recvcounts", recvcounts, recvdispls}},
                       Tables::kBoth, stream);
  });
}

}  // extern "C"
