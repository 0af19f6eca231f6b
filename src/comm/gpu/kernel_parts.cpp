#include "comm/gpu/kernel_parts.h"

#include <utility>

#include "schedule/postcondition.h"

namespace horing {

namespace {

// One call for each root's block. Only the root has both buffers; the second buffer of other ranks is not accessed.
std::vector<Call> ofEachRoot(const Call& call, Collective collective, const Blocks& blocks, int rank,
                             int ranks) {
  const bool gathers = collective == Collective::kBroadcast;
  const size_t element_bytes = dataTypeBytes(call.type);
  std::vector<Call> parts;
  for (int root = 0; root < ranks; ++root) {
    const auto block = static_cast<size_t>(root);
    if (blocks.counts[block] == 0) continue;
    Call& part = parts.emplace_back(call);
    part.collective = collective;
    part.root = root;
    part.count = blocks.counts[block];
    part.uneven = false;
    part.input_blocks = part.output_blocks = {};
    const size_t offset = blocks.offsets[block] * element_bytes;
    if (gathers) {
      part.output = call.output + offset;
      part.input = root == rank ? call.input : part.output;
    } else {
      part.input = call.input + offset;
      part.output = root == rank ? call.output : const_cast<std::byte*>(part.input);
    }
  }
  return parts;
}

}  // namespace

bool isOfMessages(const Command& command) {
  const Call* const call = command.call();
  return call && call->uneven && call->collective != Collective::kAllGather &&
         call->collective != Collective::kReduceScatter;
}

// A rank with a single block sends it to the root, or receives it from there.
std::vector<Transfer> messagesOf(const Call& call, int ranks) {
  const size_t element_bytes = dataTypeBytes(call.type);
  const Contract contract = contractOf(call.collective);
  std::vector<Transfer> messages;
  const auto send = [&](int peer, size_t offset, size_t count) {
    messages.push_back({.kind = Transfer::Send{call.input + offset * element_bytes},
                        .peer = peer,
                        .bytes = count * element_bytes});
  };
  const auto receive = [&](int peer, size_t offset, size_t count) {
    messages.push_back({.kind = Transfer::Receive{call.output + offset * element_bytes},
                        .peer = peer,
                        .bytes = count * element_bytes});
  };
  for (int peer = 0; peer < ranks; ++peer) {
    if (call.input_blocks.given())
      send(peer, call.input_blocks.offsets[peer], call.input_blocks.counts[peer]);
    if (call.output_blocks.given())
      receive(peer, call.output_blocks.offsets[peer], call.output_blocks.counts[peer]);
  }
  if (contract.in == ChunkSet::kOwn) send(call.root, 0, call.count);
  if (contract.out == ChunkSet::kOwn) receive(call.root, 0, call.count);
  return messages;
}

std::vector<Call> evenParts(const Command& command, int rank, int ranks) {
  const Call& call = *command.call();
  if (call.uneven)
    return call.collective == Collective::kAllGather
               ? ofEachRoot(call, Collective::kBroadcast, call.output_blocks, rank, ranks)
               : ofEachRoot(call, Collective::kReduce, call.input_blocks, rank, ranks);
  if (std::holds_alternative<CollectiveCommand>(command.work)) return {call};
  std::vector<Call> parts;
  for (const ListEntry& entry : command.entries()) {
    if (entry.count == 0) continue;
    Call& part = parts.emplace_back(call);
    part.input = entry.input;
    part.output = entry.output;
    part.count = entry.count;
  }
  return parts;
}

}  // namespace horing
