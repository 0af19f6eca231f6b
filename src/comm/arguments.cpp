#include "comm/arguments.h"

#include <algorithm>

#include "schedule/postcondition.h"

namespace horing {

namespace {

Status checkTypeAndOperation(DataType type, RedOp op) {
  HORING_TRY(checkType(type));
  if (!hasRedOp(type, op))
    return makeStatus(Code::kInvalidArgument, "op is %s, which %s does not have: expected an integer type",
                      redOpName(op), dataTypeName(type));
  return {};
}

Status checkBuffers(const BufferRules& rules, const void* send, const void* recv) {
  if (rules.allow(send, recv)) return {};
  const auto check = [&](const char* name, const void* buffer, size_t bytes) -> Status {
    if (bytes == 0) return {};
    if (!buffer) return makeStatus(Code::kInvalidArgument, "%s is NULL and count is not 0", name);
    if (reinterpret_cast<uintptr_t>(buffer) % rules.element_bytes != 0)
      return makeStatus(Code::kInvalidArgument, "%s is not aligned to its elements of %zu bytes", name,
                        rules.element_bytes);
    return {};
  };
  if (rules.has_send) HORING_TRY(check("sendbuff", send, rules.send_bytes));
  if (rules.has_recv) HORING_TRY(check("recvbuff", recv, rules.recv_bytes));
  if (!rules.may_be_in_place)
    return makeStatus(
        Code::kInvalidArgument,
        "sendbuff %p (%zu bytes) and recvbuff %p (%zu bytes) overlap: expected separate buffers, this "
        "collective has no in place",
        send, rules.send_bytes, recv, rules.recv_bytes);
  return makeStatus(Code::kInvalidArgument,
                    "sendbuff %p (%zu bytes) and recvbuff %p (%zu bytes) overlap: expected separate buffers, "
                    "or in place, which is "
                    "%zu bytes into the larger one",
                    send, rules.send_bytes, recv, rules.recv_bytes, rules.in_place_offset);
}

void setAllButSizes(Collective collective, const Call& call, const Caller& caller, BufferRules& rules) {
  const Contract contract = contractOf(collective);
  const bool is_root = call.root == caller.rank;
  rules.has_send = contract.in != ChunkSet::kEveryAtRoot || is_root;
  rules.has_recv = contract.out != ChunkSet::kEveryAtRoot || is_root;
  rules.element_bytes = dataTypeBytes(call.type);
  rules.may_be_in_place = contract.may_be_in_place;
}

// Of a collective whose blocks all have `call.count` elements. Written where they are: to hand them on as a Result would read what
// was written a moment ago in other pieces, for which a processor waits 20 ns.
Status setUniform(Collective collective, const Call& call, const Caller& caller, BufferRules& rules) {
  setAllButSizes(collective, call, caller, rules);
  const size_t blocks = blocksOf(collective, caller.ranks);
  size_t total_bytes = 0;
  if (__builtin_mul_overflow(call.count, blocks * rules.element_bytes, &total_bytes) ||
      total_bytes > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "count is %zu: %zu blocks of so many %s do not fit into memory",
                      call.count, blocks, dataTypeName(call.type));
  const Contract contract = contractOf(collective);
  const size_t block_bytes = call.count * rules.element_bytes;
  rules.send_bytes = blocksIn(contract.in, collective, caller.ranks) * block_bytes;
  rules.recv_bytes = blocksIn(contract.out, collective, caller.ranks) * block_bytes;
  const int32_t own = call.block_of_position ? call.block_of_position[caller.position] : caller.rank;
  rules.in_place_offset = isCutAtWill(collective) ? 0 : static_cast<size_t>(own) * block_bytes;
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

// Of a collective whose blocks differ.
Status setUneven(Collective collective, const Call& call, const Caller& caller, BufferRules& rules) {
  setAllButSizes(collective, call, caller, rules);
  const auto me = static_cast<size_t>(caller.rank);
  size_t send_elements = call.count, recv_elements = call.count, in_place_element = 0;
  if (call.input_blocks.given()) {
    HORING_ASSIGN(send_elements, extentOf(call.input_blocks, "sendcounts", call, caller.ranks));
    in_place_element = call.input_blocks.offsets[me];
  }
  if (call.output_blocks.given()) {
    HORING_ASSIGN(recv_elements, extentOf(call.output_blocks, "recvcounts", call, caller.ranks));
    in_place_element = call.output_blocks.offsets[me];
  }
  const bool both = call.input_blocks.given() && call.output_blocks.given();
  const Blocks& blocks = call.input_blocks.given() ? call.input_blocks : call.output_blocks;
  const size_t own = blocks.given() ? blocks.counts[me] : call.count;
  const size_t own_elsewhere = both ? call.output_blocks.counts[me] : call.count;
  if (own != own_elsewhere)
    return makeStatus(Code::kInvalidArgument,
                      "rank %d: its own block has %zu elements on the one side and %zu on the other",
                      caller.rank, own, own_elsewhere);
  rules.send_bytes = send_elements * rules.element_bytes;
  rules.recv_bytes = recv_elements * rules.element_bytes;
  rules.in_place_offset = in_place_element * rules.element_bytes;
  return {};
}

}  // namespace

Status findBufferRules(Collective collective, const Call& call, const Caller& caller, BufferRules& rules) {
  HORING_TRY(checkTypeAndOperation(call.type, call.op));
  if (call.root < 0 || call.root >= caller.ranks)
    return makeStatus(Code::kInvalidArgument, "root is %d: expected 0 to %d", call.root, caller.ranks - 1);
  return call.uneven ? setUneven(collective, call, caller, rules)
                     : setUniform(collective, call, caller, rules);
}

Status checkArguments(Collective collective, const Call& call, const Caller& caller) {
  BufferRules rules;
  HORING_TRY(findBufferRules(collective, call, caller, rules));
  return checkBuffers(rules, call.input, call.output);
}

Status checkType(DataType type) {
  if (static_cast<int>(type) >= 0 && static_cast<int>(type) < kDataTypes) return {};
  return makeStatus(Code::kInvalidArgument, "datatype is %d: expected 0 (int8) to %d (float8e5m2)",
                    static_cast<int>(type), kDataTypes - 1);
}

Status checkTransfer(const Transfer& transfer, int rank, int ranks) {
  const bool sends = transfer.direction == Transfer::Direction::kSend;
  const bool is_from_any = transfer.tag && !sends && transfer.peer == kAnyRank;
  if (!is_from_any && (transfer.peer < 0 || transfer.peer >= ranks))
    return makeStatus(Code::kInvalidArgument, "peer is %d: expected 0 to %d%s", transfer.peer, ranks - 1,
                      transfer.tag && !sends ? ", or HORING_ANY_RANK (-1)" : "");
  if (transfer.tag && (transfer.peer == rank || ranks == 1))
    return makeStatus(Code::kInvalidArgument,
                      "rank %d would exchange a message with a tag with itself: expected another rank", rank);
  if (transfer.bytes > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "count: %zu bytes do not fit into memory", transfer.bytes);
  if (transfer.bytes > 0 && !(sends ? static_cast<const void*>(transfer.input) : transfer.output))
    return makeStatus(Code::kInvalidArgument, "%s is NULL and count is not 0",
                      sends ? "sendbuff" : "recvbuff");
  return {};
}

}  // namespace horing
