#include "comm/calls/arguments.h"

#include <algorithm>

#include "engine/host/message_matcher.h"
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

void setAllButSizes(const CallSpec& spec, const Caller& caller, BufferRules& rules) {
  const Contract contract = contractOf(spec.collective);
  const bool is_root = spec.root == caller.rank;
  rules.has_send = contract.in != ChunkSet::kEveryAtRoot || is_root;
  rules.has_recv = contract.out != ChunkSet::kEveryAtRoot || is_root;
  rules.element_bytes = dataTypeBytes(spec.type);
  rules.may_be_in_place = contract.may_be_in_place;
}

// For a collective whose blocks all have `count` elements. Written in place: copying a Result would read bytes that were just
// written in other pieces, for which a processor stalls 20 ns.
Status setUniform(const CallSpec& spec, const Caller& caller, BufferRules& rules) {
  setAllButSizes(spec, caller, rules);
  const size_t blocks = blocksOf(spec.collective, caller.ranks);
  size_t total_bytes = 0;
  if (__builtin_mul_overflow(spec.count, blocks * rules.element_bytes, &total_bytes) ||
      total_bytes > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument,
                      "count is %zu: %zu blocks of that many %s do not fit into memory", spec.count, blocks,
                      dataTypeName(spec.type));
  const Contract contract = contractOf(spec.collective);
  const size_t block_bytes = spec.count * rules.element_bytes;
  rules.send_bytes = blocksIn(contract.in, spec.collective, caller.ranks) * block_bytes;
  rules.recv_bytes = blocksIn(contract.out, spec.collective, caller.ranks) * block_bytes;
  const int32_t own = spec.block_of_position ? spec.block_of_position[caller.position] : caller.rank;
  rules.in_place_offset = isCutAtWill(spec.collective) ? 0 : static_cast<size_t>(own) * block_bytes;
  return {};
}

// Elements from the buffer's start to the end of its last block.
Result<size_t> extentOf(const Blocks& blocks, const char* name, const CallSpec& spec, int ranks) {
  size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    size_t end = 0, bytes = 0;
    if (__builtin_add_overflow(blocks.offsets[rank], blocks.counts[rank], &end) ||
        __builtin_mul_overflow(end, dataTypeBytes(spec.type), &bytes) || bytes > PTRDIFF_MAX)
      return makeStatus(Code::kInvalidArgument,
                        "%s: block %d of %zu elements from %zu on does not fit into memory", name, rank,
                        blocks.counts[rank], blocks.offsets[rank]);
    if (blocks.counts[rank] > 0) most = std::max(most, end);
  }
  return most;
}

// Of a collective whose blocks differ.
Status setUneven(const CallSpec& spec, const Caller& caller, BufferRules& rules) {
  setAllButSizes(spec, caller, rules);
  const auto me = static_cast<size_t>(caller.rank);
  size_t send_elements = spec.count, recv_elements = spec.count, in_place_element = 0;
  if (spec.input_blocks.given()) {
    HORING_ASSIGN(send_elements, extentOf(spec.input_blocks, "sendcounts", spec, caller.ranks));
    in_place_element = spec.input_blocks.offsets[me];
  }
  if (spec.output_blocks.given()) {
    HORING_ASSIGN(recv_elements, extentOf(spec.output_blocks, "recvcounts", spec, caller.ranks));
    in_place_element = spec.output_blocks.offsets[me];
  }
  const bool both = spec.input_blocks.given() && spec.output_blocks.given();
  const Blocks& blocks = spec.input_blocks.given() ? spec.input_blocks : spec.output_blocks;
  const size_t own = blocks.given() ? blocks.counts[me] : spec.count;
  const size_t own_elsewhere = both ? spec.output_blocks.counts[me] : spec.count;
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

Status findBufferRules(const CallSpec& spec, const Caller& caller, BufferRules& rules) {
  HORING_TRY(checkTypeAndOperation(spec.type, spec.op));
  if (spec.root < 0 || spec.root >= caller.ranks)
    return makeStatus(Code::kInvalidArgument, "root is %d: expected 0 to %d", spec.root, caller.ranks - 1);
  return spec.uneven ? setUneven(spec, caller, rules) : setUniform(spec, caller, rules);
}

Status whyBuffersRefused(const BufferRules& rules, const void* send, const void* recv) {
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

Status checkArguments(const Call& call, const Caller& caller) {
  BufferRules rules;
  HORING_TRY(findBufferRules(call, caller, rules));
  return checkBuffers(rules, call.input, call.output);
}

Status checkType(DataType type) {
  if (static_cast<int>(type) >= 0 && static_cast<int>(type) < kDataTypes) return {};
  return makeStatus(Code::kInvalidArgument, "datatype is %d: expected 0 (int8) to %d (float8e5m2)",
                    static_cast<int>(type), kDataTypes - 1);
}

Status checkTransfer(const Transfer& transfer, int rank, int ranks) {
  const bool may_be_any = std::holds_alternative<Transfer::TaggedReceive>(transfer.kind);
  const bool is_any = may_be_any && transfer.peer == kAnyRank;
  if (!is_any && (transfer.peer < 0 || transfer.peer >= ranks))
    return makeStatus(Code::kInvalidArgument, "peer is %d: expected 0 to %d%s", transfer.peer, ranks - 1,
                      may_be_any ? ", or HORING_ANY_RANK (-1)" : "");
  if (transfer.meeting() == Transfer::Meeting::kTag && (transfer.peer == rank || ranks == 1))
    return makeStatus(Code::kInvalidArgument,
                      "rank %d would exchange a message with a tag with itself: expected another rank", rank);
  if (transfer.bytes > PTRDIFF_MAX)
    return makeStatus(Code::kInvalidArgument, "count: %zu bytes do not fit into memory", transfer.bytes);
  if (transfer.bytes > 0 && !transfer.memory()) {
    const bool sends = transfer.direction() == Transfer::Direction::kSend;
    return makeStatus(Code::kInvalidArgument, "%s is NULL and count is not 0",
                      transfer.isOneSided() ? "localbuff"
                      : sends               ? "sendbuff"
                                            : "recvbuff");
  }
  return {};
}

}  // namespace horing
