#include "comm/arguments.h"

#include <algorithm>

#include "schedule/postcondition.h"

namespace horing {

namespace {

// What one rank passes to a collective, as far as it has that buffer.
struct Buffers {
  const void* send = nullptr;
  void* recv = nullptr;
  bool has_send = true;
  bool has_recv = true;
  size_t send_elements = 0;
  size_t recv_elements = 0;
  bool may_be_in_place = true;
  // Where `recv` and `send` begin relative to each other when in place, in elements from the larger one's
  // start.
  size_t in_place_offset = 0;
};

Status checkTypeAndOperation(DataType type, RedOp op) {
  HORING_TRY(checkType(type));
  if (!hasRedOp(type, op))
    return makeStatus(Code::kInvalidArgument, "op is %s, which %s does not have: expected an integer type",
                      redOpName(op), dataTypeName(type));
  return {};
}

// In place exactly as declared, or not overlapping at all.
Status checkOverlap(const Buffers& buffers, size_t element_bytes) {
  const auto send = reinterpret_cast<uintptr_t>(buffers.send),
             recv = reinterpret_cast<uintptr_t>(buffers.recv);
  const size_t send_bytes = buffers.send_elements * element_bytes,
               recv_bytes = buffers.recv_elements * element_bytes;
  if (send_bytes == 0 || recv_bytes == 0) return {};
  if (send + send_bytes <= recv || recv + recv_bytes <= send) return {};
  const size_t offset = buffers.in_place_offset * element_bytes;
  const bool in_place = send_bytes >= recv_bytes ? recv == send + offset : send == recv + offset;
  if (in_place && buffers.may_be_in_place) return {};
  if (!buffers.may_be_in_place)
    return makeStatus(
        Code::kInvalidArgument,
        "sendbuff %p (%zu bytes) and recvbuff %p (%zu bytes) overlap: expected separate buffers, this "
        "collective has no in place",
        buffers.send, send_bytes, buffers.recv, recv_bytes);
  return makeStatus(Code::kInvalidArgument,
                    "sendbuff %p (%zu bytes) and recvbuff %p (%zu bytes) overlap: expected separate buffers, "
                    "or in place, which is "
                    "%zu bytes into the larger one",
                    buffers.send, send_bytes, buffers.recv, recv_bytes, offset);
}

Status checkBuffers(const Buffers& buffers, size_t element_bytes) {
  // A power of two.
  const auto misaligned = [&](const void* p) {
    return (reinterpret_cast<uintptr_t>(p) & (element_bytes - 1)) != 0;
  };
  const auto check = [&](const char* name, const void* buffer, size_t elements) -> Status {
    if (elements == 0) return {};
    if (!buffer) return makeStatus(Code::kInvalidArgument, "%s is NULL and count is not 0", name);
    if (misaligned(buffer))
      return makeStatus(Code::kInvalidArgument, "%s is not aligned to its elements of %zu bytes", name,
                        element_bytes);
    return {};
  };
  if (buffers.has_send) HORING_TRY(check("sendbuff", buffers.send, buffers.send_elements));
  if (buffers.has_recv) HORING_TRY(check("recvbuff", buffers.recv, buffers.recv_elements));
  return buffers.has_send && buffers.has_recv ? checkOverlap(buffers, element_bytes) : Status();
}

// Those that this rank has, without their sizes.
void findBuffers(const Contract& contract, const Call& call, const Caller& caller, Buffers& buffers) {
  const bool is_root = call.root == caller.rank;
  buffers.send = call.input;
  buffers.recv = call.output;
  buffers.has_send = contract.in != ChunkSet::kEveryAtRoot || is_root;
  buffers.has_recv = contract.out != ChunkSet::kEveryAtRoot || is_root;
  buffers.may_be_in_place = contract.may_be_in_place;
}

// The buffers of a collective whose blocks all have `call.count` elements. Filled where they are: to hand them on as a Result
// would read what was written a moment ago in other pieces, for which a processor waits 20 ns.
Status findUniformBuffers(Collective collective, const Call& call, const Caller& caller, Buffers& buffers) {
  const Contract contract = contractOf(collective);
  const size_t element_bytes = dataTypeBytes(call.type), blocks = blocksOf(collective, caller.ranks);
  size_t total_bytes = 0;
  if (__builtin_mul_overflow(call.count, blocks * element_bytes, &total_bytes) || total_bytes > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "count is %zu: %zu blocks of so many %s do not fit into memory",
                      call.count, blocks, dataTypeName(call.type));
  findBuffers(contract, call, caller, buffers);
  buffers.send_elements = blocksIn(contract.in, collective, caller.ranks) * call.count;
  buffers.recv_elements = blocksIn(contract.out, collective, caller.ranks) * call.count;
  const int32_t own = call.block_of_position ? call.block_of_position[caller.position] : caller.rank;
  buffers.in_place_offset = isCutAtWill(collective) ? 0 : static_cast<size_t>(own) * call.count;
  return {};
}

// Elements from the buffer's start to the end of its last block.
Result<size_t> extentOf(const Blocks& blocks, const char* name, const Call& call, int ranks) {
  size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    size_t end = 0, bytes = 0;
    if (__builtin_add_overflow(blocks.offsets[rank], blocks.counts[rank], &end) ||
        __builtin_mul_overflow(end, dataTypeBytes(call.type), &bytes) || bytes > PTRDIFF_MAX)
      return makeStatus(Code::kInvalidArgument,
                        "%s: block %d of %zu elements from %zu on does not fit into memory", name, rank,
                        blocks.counts[rank], blocks.offsets[rank]);
    if (blocks.counts[rank] > 0) most = std::max(most, end);
  }
  return most;
}

// The buffers of a collective whose blocks differ.
Status findUnevenBuffers(Collective collective, const Call& call, const Caller& caller, Buffers& buffers) {
  const auto me = static_cast<size_t>(caller.rank);
  findBuffers(contractOf(collective), call, caller, buffers);
  buffers.send_elements = buffers.recv_elements = call.count;
  if (call.input_blocks.given()) {
    HORING_ASSIGN(buffers.send_elements, extentOf(call.input_blocks, "sendcounts", call, caller.ranks));
    buffers.in_place_offset = call.input_blocks.offsets[me];
  }
  if (call.output_blocks.given()) {
    HORING_ASSIGN(buffers.recv_elements, extentOf(call.output_blocks, "recvcounts", call, caller.ranks));
    buffers.in_place_offset = call.output_blocks.offsets[me];
  }
  const bool both = call.input_blocks.given() && call.output_blocks.given();
  const Blocks& blocks = call.input_blocks.given() ? call.input_blocks : call.output_blocks;
  const size_t own = blocks.given() ? blocks.counts[me] : call.count;
  const size_t own_elsewhere = both ? call.output_blocks.counts[me] : call.count;
  if (own != own_elsewhere)
    return makeStatus(Code::kInvalidArgument,
                      "rank %d: its own block has %zu elements on the one side and %zu on the other",
                      caller.rank, own, own_elsewhere);
  return {};
}

}  // namespace

Status checkArguments(Collective collective, const Call& call, const Caller& caller) {
  HORING_TRY(checkTypeAndOperation(call.type, call.op));
  if (call.root < 0 || call.root >= caller.ranks)
    return makeStatus(Code::kInvalidArgument, "root is %d: expected 0 to %d", call.root, caller.ranks - 1);
  Buffers buffers;
  HORING_TRY(call.uneven ? findUnevenBuffers(collective, call, caller, buffers)
                         : findUniformBuffers(collective, call, caller, buffers));
  return checkBuffers(buffers, dataTypeBytes(call.type));
}

Status checkType(DataType type) {
  if (static_cast<int>(type) >= 0 && static_cast<int>(type) < kDataTypes) return {};
  return makeStatus(Code::kInvalidArgument, "datatype is %d: expected 0 (int8) to %d (float8e5m2)",
                    static_cast<int>(type), kDataTypes - 1);
}

Status checkTransfer(const Transfer& transfer, int ranks) {
  const bool sends = transfer.direction == Transfer::Direction::kSend;
  if (transfer.peer < 0 || transfer.peer >= ranks)
    return makeStatus(Code::kInvalidArgument, "peer is %d: expected 0 to %d", transfer.peer, ranks - 1);
  if (transfer.bytes > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "count: %zu bytes do not fit into memory", transfer.bytes);
  if (transfer.bytes > 0 && !(sends ? static_cast<const void*>(transfer.input) : transfer.output))
    return makeStatus(Code::kInvalidArgument, "%s is NULL and count is not 0",
                      sends ? "sendbuff" : "recvbuff");
  return {};
}

}  // namespace horing
