// The records of messages: one each, but for large groups, which have one together, and one for each message that keeps them waiting.
#include <algorithm>

#include "base/no_memory.h"
#include "engine/host/point_to_point.h"
#include "engine/host/transfer_record.h"

namespace horing {

namespace {
// Of the messages that keep a rank waiting: first the one of each peer whose turn it is, last those behind these.
constexpr size_t kMostWaiting = 32;
}  // namespace

// True: each message gets a record. False: they have one together, `group`. Those to the own rank, which are complete, are recorded.
bool PointToPoint::recordCall(std::span<const Transfer> transfers, uint32_t& group) {
  const bool records_each = recorder_->recordsEach(transfers.size());
  if (!records_each) group = recorder_->begin(groupRecordOf(transfers));
  for (const Transfer& transfer : transfers) {
    if (transfer.peer != rank_ || transfer.isOneSided()) continue;
    const bool is_sent = transfer.direction() == Transfer::Direction::kSend;
    const uint64_t number = (is_sent ? sent_ : received_)[static_cast<size_t>(rank_)]++;
    if (records_each) recorder_->end(recorder_->begin(recordOf(transfer, number)));
  }
  return records_each;
}

void PointToPoint::addRecorded(Transfer transfer) {
  uint64_t number = 0;
  if (transfer.meeting() == Transfer::Meeting::kOrder) {
    const Flow& flow = flowOf(transfer.peer, transfer.direction());
    number = numberOf(flow, flow.transfers.size());
  }
  transfer.record = recorder_->begin(recordOf(transfer, number));
  add(transfer);
}

void PointToPoint::recordWaiting(int64_t since_ns) {
  if (!recorder_) return;
  size_t seen = 0;
  const auto see = [&](Transfer& transfer, uint64_t number, bool has_moved) {
    ++seen;
    if (recorder_->has(transfer.record)) return;
    RecordedMessage record = recordOf(transfer, number);
    // A message of a large group is as old as that.
    const uint32_t group = transfer.ticket == 0 ? group_record_ : tickets_.at(transfer.ticket).record;
    const int64_t enqueued_ns = recorder_->enqueuedNs(group);
    record.enqueued_ns = enqueued_ns != 0 ? enqueued_ns : since_ns;
    transfer.record = recorder_->begin(record);
    if (has_moved) recorder_->start(transfer.record);
  };
  const auto see_of = [&](Flow& flow, size_t begin, size_t end) {
    for (size_t i = begin; i < std::min(end, flow.transfers.size()) && seen < kMostWaiting; ++i) {
      Transfer& transfer = flow.transfers[i];
      // What other ranks put, and what no receive waits for yet, is no message of this rank.
      if (std::holds_alternative<Transfer::ArrivingPut>(transfer.kind) ||
          std::holds_alternative<Transfer::Kept>(transfer.kind))
        continue;
      see(transfer, numberOf(flow, i), i == flow.current && flow.offset > 0);
    }
  };
  // Without memory, less is recorded.
  [[maybe_unused]] const Status recorded = withoutExceptions([&] {
    for (Flow& flow : flows_) see_of(flow, flow.current, flow.current + 1);
    for (auto& [number, receive] : inbox_.posted())
      if (seen < kMostWaiting) see(receive, 0, false);
    signals_.forEachWait([&](Transfer& wait) {
      if (seen < kMostWaiting) see(wait, 0, false);
    });
    for (Flow& flow : flows_) see_of(flow, flow.current + 1, flow.transfers.size());
  });
}

}  // namespace horing
