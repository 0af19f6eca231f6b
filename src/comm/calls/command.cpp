#include "comm/calls/command.h"

#include <algorithm>

#include "comm/calls/total_bytes.h"
#include "schedule/postcondition.h"

namespace horing {

Call* Command::call() {
  if (auto* const collective = std::get_if<CollectiveCommand>(&work)) return &collective->call;
  auto* const list = std::get_if<ListCommand>(&work);
  return list ? &list->shared : nullptr;
}

std::span<const ListEntry> Command::entries() const {
  const auto* const list = std::get_if<ListCommand>(&work);
  return list ? std::span(list->entries) : std::span<const ListEntry>();
}

std::span<Transfer> Command::transfers() {
  auto* const exchange = std::get_if<ExchangeCommand>(&work);
  return exchange ? std::span(exchange->transfers) : std::span<Transfer>();
}

std::vector<CommandBuffer> buffersOf(const Command& command, int rank) {
  std::vector<CommandBuffer> buffers;
  const auto add = [&](const void* input, const void* output) {
    if (input) buffers.push_back({"sendbuff", input});
    if (output && output != input) buffers.push_back({"recvbuff", output});
  };
  for (const Transfer& transfer : command.transfers())
    if (transfer.bytes > 0) add(transfer.input(), transfer.output());
  for (const ListEntry& entry : command.entries())
    if (entry.count > 0) add(entry.input, entry.output);
  if (const auto* const collective = std::get_if<CollectiveCommand>(&command.work)) {
    const Call& call = collective->call;
    const Contract contract = contractOf(call.collective);
    const bool is_root = call.root == rank;
    add(contract.in != ChunkSet::kEveryAtRoot || is_root ? call.input : nullptr,
        contract.out != ChunkSet::kEveryAtRoot || is_root ? call.output : nullptr);
  }
  return buffers;
}

bool hasCopier(const Command& command) {
  const Call* const call = command.call();
  const auto transfers = command.transfers();
  return (call && call->copier) ||
         std::any_of(transfers.begin(), transfers.end(),
                     [](const Transfer& transfer) { return transfer.copier != nullptr; });
}

bool goesBeside(const Command& command) {
  const auto transfers = command.transfers();
  return !transfers.empty() && std::all_of(transfers.begin(), transfers.end(),
                                           [](const Transfer& transfer) { return transfer.goesBeside(); });
}

bool isOneSided(const Command& command) {
  const auto transfers = command.transfers();
  return !transfers.empty() && transfers.front().isOneSided();
}

bool waitsForSignals(const Command& command) {
  return std::holds_alternative<Transfer::SignalWait>(command.transfers().front().kind);
}

bool movesNothing(const Command& command) {
  const auto* const collective = std::get_if<CollectiveCommand>(&command.work);
  return collective && movesNothing(collective->call);
}

}  // namespace horing
