// The collectives of include/horing/horing.h with blocks of one size.
#include "capi/calls.h"
#include "capi/settings.h"

namespace horing {
namespace {

struct Arguments {
  Collective collective;
  const void* send;
  void* recv;
  size_t count;
  horingDataType_t type;
  horingRedOp_t op = horingSum;  // for reductions
  int root = 0;                  // for collectives with a root
};

horingResult_t issueUniform(const Arguments& given, horingComm_t comm, horingStream_t stream) {
  return guardedLaunch(comm, [&]() -> Status {
    Command command;
    // Filled in place: a copy would cost a small call 10 ns.
    Call& call = *command.call();
    setCall(call, given.collective, given.send, given.recv, given.count, given.type);
    call.root = given.root;
    if (isReduction(given.collective)) HORING_TRY(setOperation(call, comm, given.op));
    return issue(comm, std::move(command), stream);
  });
}

}  // namespace
}  // namespace horing

extern "C" {

horingResult_t horingSetCallOptions(const horingCallOptions_t* options, horingCallOptions_t* former) {
  return horing::guarded(nullptr, [&] { return horing::setCallOptions(options, former); });
}

horingResult_t horingAllReduce(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                               horingRedOp_t op, horingComm_t comm, horingStream_t stream) {
  return horing::issueUniform({horing::Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op}, comm,
                              stream);
}

horingResult_t horingReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                   horingDataType_t datatype, horingRedOp_t op, horingComm_t comm,
                                   horingStream_t stream) {
  return horing::issueUniform(
      {horing::Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op}, comm, stream);
}

horingResult_t horingAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                               horingDataType_t datatype, horingComm_t comm, horingStream_t stream) {
  return horing::issueUniform({horing::Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype}, comm,
                              stream);
}

horingResult_t horingBroadcast(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                               int root, horingComm_t comm, horingStream_t stream) {
  return horing::issueUniform(
      {horing::Collective::kBroadcast, sendbuff, recvbuff, count, datatype, horingSum, root}, comm, stream);
}

horingResult_t horingBcast(void* buff, size_t count, horingDataType_t datatype, int root, horingComm_t comm,
                           horingStream_t stream) {
  return horingBroadcast(buff, buff, count, datatype, root, comm, stream);
}

horingResult_t horingReduce(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                            horingRedOp_t op, int root, horingComm_t comm, horingStream_t stream) {
  return horing::issueUniform({horing::Collective::kReduce, sendbuff, recvbuff, count, datatype, op, root},
                              comm, stream);
}

horingResult_t horingGather(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                            int root, horingComm_t comm, horingStream_t stream) {
  return horing::issueUniform(
      {horing::Collective::kGather, sendbuff, recvbuff, count, datatype, horingSum, root}, comm, stream);
}

horingResult_t horingScatter(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                             int root, horingComm_t comm, horingStream_t stream) {
  return horing::issueUniform(
      {horing::Collective::kScatter, sendbuff, recvbuff, count, datatype, horingSum, root}, comm, stream);
}

horingResult_t horingAlltoAll(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                              horingComm_t comm, horingStream_t stream) {
  return horing::issueUniform({horing::Collective::kAllToAll, sendbuff, recvbuff, count, datatype}, comm,
                              stream);
}

}  // extern "C"
