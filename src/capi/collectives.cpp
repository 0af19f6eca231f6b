// The collectives of include/horing/horing.h whose blocks all have one size.
#include "capi/calls.h"

namespace horing {
namespace {

Status issueReduction(horingComm_t comm, Command&& command, horingRedOp_t op, horingStream_t stream) {
  HORING_TRY(setOperation(command, comm, op));
  return issue(comm, std::move(command), stream);
}

}  // namespace
}  // namespace horing

extern "C" {

horingResult_t horingAllReduce(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                               horingRedOp_t op, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueReduction(comm, makeCommand(Collective::kAllReduce, sendbuff, recvbuff, count, datatype), op,
                          stream);
  });
}

horingResult_t horingReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                   horingDataType_t datatype, horingRedOp_t op, horingComm_t comm,
                                   horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueReduction(
        comm, makeCommand(Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype), op, stream);
  });
}

horingResult_t horingAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                               horingDataType_t datatype, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issue(comm, makeCommand(Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype), stream);
  });
}

horingResult_t horingBroadcast(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                               int root, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issue(comm,
                 withRoot(makeCommand(Collective::kBroadcast, sendbuff, recvbuff, count, datatype), root),
                 stream);
  });
}

horingResult_t horingBcast(void* buff, size_t count, horingDataType_t datatype, int root, horingComm_t comm,
                           horingStream_t stream) {
  return horingBroadcast(buff, buff, count, datatype, root, comm, stream);
}

horingResult_t horingReduce(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                            horingRedOp_t op, int root, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueReduction(
        comm, withRoot(makeCommand(Collective::kReduce, sendbuff, recvbuff, count, datatype), root), op,
        stream);
  });
}

horingResult_t horingGather(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                            int root, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issue(comm, withRoot(makeCommand(Collective::kGather, sendbuff, recvbuff, count, datatype), root),
                 stream);
  });
}

horingResult_t horingScatter(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                             int root, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issue(comm, withRoot(makeCommand(Collective::kScatter, sendbuff, recvbuff, count, datatype), root),
                 stream);
  });
}

horingResult_t horingAlltoAll(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                              horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issue(comm, makeCommand(Collective::kAllToAll, sendbuff, recvbuff, count, datatype), stream);
  });
}

}  // extern "C"
