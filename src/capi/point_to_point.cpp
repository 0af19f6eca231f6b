// Send and receive of include/horing/horing.h.
#include "capi/calls.h"

namespace horing {

namespace {

Status issueTransfer(horingComm_t comm, const Transfer::Kind& kind, int peer, size_t count,
                     horingDataType_t type, horingStream_t stream) {
  Transfer transfer{.kind = kind, .peer = peer};
  HORING_ASSIGN(transfer.bytes, bytesOf(count, type));
  transfer.type = static_cast<DataType>(type);
  return issue(comm, Command(ExchangeCommand{{transfer}}), stream);
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingSend(const void* sendbuff, size_t count, horingDataType_t datatype, int peer,
                          horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm, Transfer::Send{static_cast<const std::byte*>(sendbuff)}, peer, count, datatype,
                         stream);
  });
}

horingResult_t horingRecv(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                          horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm, Transfer::Receive{static_cast<std::byte*>(recvbuff)}, peer, count, datatype,
                         stream);
  });
}

horingResult_t horingSendTagged(const void* sendbuff, size_t count, horingDataType_t datatype, int peer,
                                uint64_t tag, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm, Transfer::TaggedSend{static_cast<const std::byte*>(sendbuff), tag}, peer,
                         count, datatype, stream);
  });
}

horingResult_t horingRecvTagged(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                                uint64_t tag, int* source, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm, Transfer::TaggedReceive{static_cast<std::byte*>(recvbuff), tag, source}, peer,
                         count, datatype, stream);
  });
}

}  // extern "C"
