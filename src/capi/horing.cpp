// The collectives of include/horing/horing.h: checks of the arguments, nothing else.
#include "capi/handle.h"
#include "comm/arguments.h"

namespace horing {

namespace {

Status checkStream(horingStream_t stream) {
  if (stream == nullptr) return {};
  return makeStatus(Code::kInvalidUsage,
                    "stream is %p: expected NULL, collectives on host buffers complete on return", stream);
}

Status runCollective(Collective collective, horingComm_t comm, const Call& call, horingStream_t stream) {
  HORING_TRY(checkHandle(comm));
  HORING_TRY(checkStream(stream));
  Communicator& communicator = *comm->communicator;
  HORING_TRY(checkArguments(collective, call, communicator.rank(), communicator.ranks()));
  return communicator.run(collective, call);
}

Call makeCall(const void* send, void* recv, size_t count, horingDataType_t type, horingRedOp_t op) {
  Call call;
  call.input = static_cast<const std::byte*>(send);
  call.output = static_cast<std::byte*>(recv);
  call.count = count;
  call.type = static_cast<DataType>(type);
  call.op = static_cast<RedOp>(op);
  return call;
}

Call makeRootedCall(Call call, int root) {
  call.root = root;
  return call;
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingAllReduce(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                               horingRedOp_t op, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guarded(comm, [&] {
    return runCollective(Collective::kAllReduce, comm, makeCall(sendbuff, recvbuff, count, datatype, op),
                         stream);
  });
}

horingResult_t horingReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                   horingDataType_t datatype, horingRedOp_t op, horingComm_t comm,
                                   horingStream_t stream) {
  using namespace horing;
  return guarded(comm, [&] {
    return runCollective(Collective::kReduceScatter, comm,
                         makeCall(sendbuff, recvbuff, recvcount, datatype, op), stream);
  });
}

horingResult_t horingAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                               horingDataType_t datatype, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guarded(comm, [&] {
    return runCollective(Collective::kAllGather, comm,
                         makeCall(sendbuff, recvbuff, sendcount, datatype, horingSum), stream);
  });
}

horingResult_t horingBroadcast(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                               int root, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guarded(comm, [&] {
    return runCollective(Collective::kBroadcast, comm,
                         makeRootedCall(makeCall(sendbuff, recvbuff, count, datatype, horingSum), root),
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
  return guarded(comm, [&] {
    return runCollective(Collective::kReduce, comm,
                         makeRootedCall(makeCall(sendbuff, recvbuff, count, datatype, op), root), stream);
  });
}

horingResult_t horingGather(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                            int root, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guarded(comm, [&] {
    return runCollective(Collective::kGather, comm,
                         makeRootedCall(makeCall(sendbuff, recvbuff, count, datatype, horingSum), root),
                         stream);
  });
}

horingResult_t horingScatter(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                             int root, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guarded(comm, [&] {
    return runCollective(Collective::kScatter, comm,
                         makeRootedCall(makeCall(sendbuff, recvbuff, count, datatype, horingSum), root),
                         stream);
  });
}

horingResult_t horingAlltoAll(const void* sendbuff, void* recvbuff, size_t count, horingDataType_t datatype,
                              horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guarded(comm, [&] {
    return runCollective(Collective::kAllToAll, comm,
                         makeCall(sendbuff, recvbuff, count, datatype, horingSum), stream);
  });
}

}  // extern "C"
