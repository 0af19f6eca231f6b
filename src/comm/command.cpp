#include "comm/command.h"

#include <algorithm>

#include "schedule/postcondition.h"

namespace horing {

std::vector<CommandBuffer> buffersOf(const Command& command, int rank) {
  std::vector<CommandBuffer> buffers;
  const auto add = [&](const void* input, const void* output) {
    if (input) buffers.push_back({"sendbuff", input});
    if (output && output != input) buffers.push_back({"recvbuff", output});
  };
  for (const Transfer& transfer : command.transfers)
    if (transfer.bytes > 0) add(transfer.input, transfer.output);
  for (const ListEntry& entry : command.list)
    if (entry.count > 0) add(entry.input, entry.output);
  if (!command.transfers.empty() || !command.list.empty()) return buffers;
  const Contract contract = contractOf(command.collective);
  const bool is_root = command.call.root == rank;
  add(contract.in != ChunkSet::kEveryAtRoot || is_root ? command.call.input : nullptr,
      contract.out != ChunkSet::kEveryAtRoot || is_root ? command.call.output : nullptr);
  return buffers;
}

bool hasCopier(const Command& command) {
  return command.call.copier || std::any_of(command.transfers.begin(), command.transfers.end(),
                                            [](const Transfer& transfer) { return transfer.copier; });
}

bool hasTagsOnly(const Command& command) {
  return !command.transfers.empty() &&
         std::all_of(command.transfers.begin(), command.transfers.end(),
                     [](const Transfer& transfer) { return transfer.tag.has_value(); });
}

bool movesNothing(const Command& command) {
  return !command.task && command.transfers.empty() && command.list.empty() && !command.call.uneven &&
         command.call.count == 0;
}

}  // namespace horing
