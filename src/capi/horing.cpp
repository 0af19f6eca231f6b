// The collectives of include/horing/horing.h: checks of the arguments, nothing else.
#include <cstring>

#include "capi/handle.h"

namespace horing {

namespace {

struct Buffers {
  const void* send;
  void* recv;
  size_t send_elements;
  size_t recv_elements;
  // Where `recv` and `send` begin relative to each other when in place, in elements from the larger one's
  // start.
  size_t in_place_offset;
};

Status checkEnums(horingDataType_t type, horingRedOp_t op) {
  if (static_cast<int>(type) < 0 || static_cast<int>(type) >= kDataTypes)
    return makeStatus(Code::kInvalidArgument, "datatype is %d: expected 0 (int8) to %d (float8e5m2)",
                      static_cast<int>(type), kDataTypes - 1);
  if (static_cast<int>(op) < 0 || static_cast<int>(op) >= kRedOps)
    return makeStatus(Code::kInvalidArgument, "op is %d: expected 0 (sum) to %d (avg)", static_cast<int>(op),
                      kRedOps - 1);
  return {};
}

Status checkStream(horingStream_t stream) {
  if (stream == nullptr) return {};
  return makeStatus(Code::kInvalidUsage,
                    "stream is %p: expected NULL, collectives on host buffers complete on return", stream);
}

// In place exactly as declared, or not overlapping at all.
Status checkOverlap(const Buffers& buffers, size_t element_bytes) {
  const auto send = reinterpret_cast<uintptr_t>(buffers.send),
             recv = reinterpret_cast<uintptr_t>(buffers.recv);
  const size_t send_bytes = buffers.send_elements * element_bytes,
               recv_bytes = buffers.recv_elements * element_bytes;
  if (send + send_bytes <= recv || recv + recv_bytes <= send) return {};
  const size_t offset = buffers.in_place_offset * element_bytes;
  const bool in_place = send_bytes >= recv_bytes ? recv == send + offset : send == recv + offset;
  if (in_place) return {};
  return makeStatus(Code::kInvalidArgument,
                    "sendbuff %p (%zu bytes) and recvbuff %p (%zu bytes) overlap: expected separate buffers, "
                    "or in place, which is "
                    "%zu bytes into the larger one",
                    buffers.send, send_bytes, buffers.recv, recv_bytes, offset);
}

Status checkBuffers(const Buffers& buffers, size_t element_bytes) {
  if (!buffers.send) return makeStatus(Code::kInvalidArgument, "sendbuff is NULL and count is not 0");
  if (!buffers.recv) return makeStatus(Code::kInvalidArgument, "recvbuff is NULL and count is not 0");
  const auto misaligned = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % element_bytes != 0; };
  if (misaligned(buffers.send) || misaligned(buffers.recv))
    return makeStatus(Code::kInvalidArgument, "%s is not aligned to its elements of %zu bytes",
                      misaligned(buffers.send) ? "sendbuff" : "recvbuff", element_bytes);
  return checkOverlap(buffers, element_bytes);
}

// `count` as in Call. The larger buffer of all-gather and reduce-scatter holds `ranks` blocks.
Status runCollective(Collective collective, horingComm_t comm, Call call, horingStream_t stream) {
  HORING_TRY(checkHandle(comm));
  HORING_TRY(checkStream(stream));
  HORING_TRY(checkEnums(static_cast<horingDataType_t>(call.type), static_cast<horingRedOp_t>(call.op)));
  Communicator& communicator = *comm->communicator;
  const auto ranks = static_cast<size_t>(communicator.ranks()),
             rank = static_cast<size_t>(communicator.rank());
  const size_t blocks = collective == Collective::kAllReduce ? 1 : ranks;
  const size_t element_bytes = dataTypeBytes(call.type);
  size_t total_bytes = 0;
  if (__builtin_mul_overflow(call.count, blocks * element_bytes, &total_bytes) || total_bytes > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "count is %zu: %zu blocks of so many %s do not fit into memory",
                      call.count, blocks, dataTypeName(call.type));
  if (call.count > 0) {
    Buffers buffers{call.input, call.output, call.count, call.count, 0};
    if (collective == Collective::kAllGather) buffers.recv_elements *= ranks;
    if (collective == Collective::kReduceScatter) buffers.send_elements *= ranks;
    if (collective != Collective::kAllReduce) buffers.in_place_offset = rank * call.count;
    HORING_TRY(checkBuffers(buffers, element_bytes));
  }
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

}  // extern "C"
