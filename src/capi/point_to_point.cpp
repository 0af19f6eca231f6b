// Send and receive of include/horing/horing.h.
#include "capi/calls.h"

namespace horing {

namespace {

Status issueTransfer(horingComm_t comm, Transfer transfer, size_t count, horingDataType_t type,
                     horingStream_t stream) {
  HORING_ASSIGN(transfer.bytes, bytesOf(count, type));
  return issue(comm, Command(ExchangeCommand{{transfer}}), stream);
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingSend(const void* sendbuff, size_t count, horingDataType_t datatype, int peer,
                          horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm,
                         {.direction = Transfer::Direction::kSend,
                          .peer = peer,
                          .input = static_cast<const std::byte*>(sendbuff)},
                         count, datatype, stream);
  });
}

horingResult_t horingRecv(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                          horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm,
                         {.direction = Transfer::Direction::kReceive,
                          .peer = peer,
                          .output = static_cast<std::byte*>(recvbuff)},
                         count, datatype, stream);
  });
}

horingResult_t horingSendTagged(const void* sendbuff, size_t count, horingDataType_t datatype, int peer,
                                uint64_t tag, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm,
                         {.direction = Transfer::Direction::kSend,
                          .peer = peer,
                          .input = static_cast<const std::byte*>(sendbuff),
                          .tag = tag},
                         count, datatype, stream);
  });
}

horingResult_t horingRecvTagged(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                                uint64_t tag, int* source, horingComm_t comm, horingStream_t stream) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return issueTransfer(comm,
                         {.direction = Transfer::Direction::kReceive,
                          .peer = peer,
                          .output = static_cast<std::byte*>(recvbuff),
                          .tag = tag,
                          .source = source},
                         count, datatype, stream);
  });
}

}  // extern "C"
