// The collectives of include/horing/horing.h that take lists of buffers.
#include <utility>

#include "capi/calls.h"

namespace horing {

namespace {

struct List {
  const void* const* sends;
  void* const* recvs;
  const size_t* counts;
  size_t length;
};

// Issues `call`, which has the common arguments, for each entry.
Status issueList(horingComm_t comm, const Call& call, const List& list, horingStream_t stream) {
  HORING_TRY(checkHandle(comm));
  if (list.length == 0) return {};
  if (!list.sends || !list.recvs || !list.counts)
    return makeStatus(Code::kInvalidArgument,
                      "a list of %zu entries is NULL: expected sendbuffs, recvbuffs and counts", list.length);
  ListCommand command{call, {}};
  command.entries.reserve(list.length);
  for (size_t i = 0; i < list.length; ++i)
    command.entries.push_back({static_cast<const std::byte*>(list.sends[i]),
                               static_cast<std::byte*>(list.recvs[i]), list.counts[i]});
  return issue(comm, Command(std::move(command)), stream);
}

Status issueListReduction(horingComm_t comm, Call call, horingRedOp_t op, const List& list,
                          horingStream_t stream) {
  HORING_TRY(setOperation(call, comm, op));
  return issueList(comm, call, list, stream);
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingAllReduceList(const void* const* sendbuffs, void* const* recvbuffs, const size_t* counts,
                                   size_t length, horingDataType_t datatype, horingRedOp_t op,
                                   horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueListReduction(comm, makeCall(Collective::kAllReduce, nullptr, nullptr, 0, datatype), op,
                              {sendbuffs, recvbuffs, counts, length}, stream);
  });
}

horingResult_t horingReduceScatterList(const void* const* sendbuffs, void* const* recvbuffs,
                                       const size_t* recvcounts, size_t length, horingDataType_t datatype,
                                       horingRedOp_t op, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueListReduction(comm, makeCall(Collective::kReduceScatter, nullptr, nullptr, 0, datatype), op,
                              {sendbuffs, recvbuffs, recvcounts, length}, stream);
  });
}

horingResult_t horingAllGatherList(const void* const* sendbuffs, void* const* recvbuffs,
                                   const size_t* sendcounts, size_t length, horingDataType_t datatype,
                                   horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueList(comm, makeCall(Collective::kAllGather, nullptr, nullptr, 0, datatype),
                     {sendbuffs, recvbuffs, sendcounts, length}, stream);
  });
}

}  // extern "C"
