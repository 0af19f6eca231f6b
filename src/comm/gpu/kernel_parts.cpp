#include "comm/gpu/kernel_parts.h"

#include <utility>

#include "schedule/postcondition.h"

namespace horing {

namespace {

Command like(const Command& command, Collective collective, size_t count) {
  Command part;
  part.collective = collective;
  part.on_gpu = command.on_gpu;
  part.host_has_factor = command.host_has_factor;
  part.call.count = count;
  part.call.type = command.call.type;
  part.call.op = command.call.op;
  part.call.factor = command.call.factor;
  part.call.factor_at = command.call.factor_at;
  return part;
}

// A block of one size, from or to a root. Only the root has both buffers; of the others' second nothing is read or written.
std::vector<Command> ofEachRoot(const Command& command, Collective collective, const Blocks& blocks, int rank,
                                int ranks) {
  const bool gathers = collective == Collective::kBroadcast;
  const size_t element_bytes = dataTypeBytes(command.call.type);
  std::vector<Command> parts;
  for (int root = 0; root < ranks; ++root) {
    const auto block = static_cast<size_t>(root);
    if (blocks.counts[block] == 0) continue;
    Command& part = parts.emplace_back(like(command, collective, blocks.counts[block]));
    part.call.root = root;
    const size_t offset = blocks.offsets[block] * element_bytes;
    if (gathers) {
      part.call.output = command.call.output + offset;
      part.call.input = root == rank ? command.call.input : part.call.output;
    } else {
      part.call.input = command.call.input + offset;
      part.call.output = root == rank ? command.call.output : const_cast<std::byte*>(part.call.input);
    }
  }
  return parts;
}

}  // namespace

bool isOfMessages(const Command& command) {
  return command.call.uneven && command.collective != Collective::kAllGather &&
         command.collective != Collective::kReduceScatter;
}

// A rank that has one block alone sends it to the root, or gets it from there.
std::vector<Transfer> messagesOf(const Command& command, int ranks) {
  const Call& call = command.call;
  const size_t element_bytes = dataTypeBytes(call.type);
  const Contract contract = contractOf(command.collective);
  std::vector<Transfer> messages;
  const auto send = [&](int peer, size_t offset, size_t count) {
    messages.push_back({.direction = Transfer::Direction::kSend,
                        .peer = peer,
                        .input = call.input + offset * element_bytes,
                        .bytes = count * element_bytes});
  };
  const auto receive = [&](int peer, size_t offset, size_t count) {
    messages.push_back({.direction = Transfer::Direction::kReceive,
                        .peer = peer,
                        .output = call.output + offset * element_bytes,
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

std::vector<Command> evenParts(const Command& command, int rank, int ranks) {
  std::vector<Command> parts;
  for (const ListEntry& entry : command.list) {
    if (entry.count == 0) continue;
    Command& part = parts.emplace_back(like(command, command.collective, entry.count));
    part.call.input = entry.input;
    part.call.output = entry.output;
  }
  if (!command.list.empty()) return parts;
  if (!command.call.uneven) {
    Command& whole = parts.emplace_back(like(command, command.collective, command.call.count));
    whole.call = command.call;
    return parts;
  }
  return command.collective == Collective::kAllGather
             ? ofEachRoot(command, Collective::kBroadcast, command.call.output_blocks, rank, ranks)
             : ofEachRoot(command, Collective::kReduce, command.call.input_blocks, rank, ranks);
}

}  // namespace horing
