#include "engine/host/point_to_point.h"

#include <algorithm>
#include <cstring>

#include "engine/host/fold.h"

namespace horing {

namespace {

// Slots that one flow may fill or empty before the next has its turn.
constexpr int kTurn = 4;
constexpr uint64_t kSizeMask = (uint64_t{1} << 40) - 1;

// What both ends of a pair know of a message: which one it is, and its size, so that a receiver can name the
// difference.
Tag tagOf(uint64_t number, size_t bytes) {
  return number << 40 | (bytes & kSizeMask);
}

}  // namespace

Result<std::vector<OwnMessage>> ownMessages(int rank, std::span<const Transfer> transfers) {
  std::vector<const Transfer*> sends, receives;
  for (const Transfer& transfer : transfers)
    if (transfer.peer == rank)
      (transfer.direction == Transfer::Direction::kSend ? sends : receives).push_back(&transfer);
  if (sends.size() != receives.size())
    return makeStatus(
        Code::kInvalidUsage,
        "rank %d sends itself %zu messages and receives %zu of them in one group: each needs its "
        "counterpart in the same group",
        rank, sends.size(), receives.size());
  std::vector<OwnMessage> messages;
  for (size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->bytes != receives[i]->bytes)
      return makeStatus(Code::kInvalidUsage, "rank %d sends itself %zu bytes and receives %zu", rank,
                        sends[i]->bytes, receives[i]->bytes);
    messages.push_back({sends[i], receives[i]});
  }
  return messages;
}

PointToPoint::PointToPoint(int rank, int ranks, uint32_t slot_bytes, PeerConnections& connections)
    : rank_(rank),
      slot_bytes_(slot_bytes),
      connections_(connections),
      sent_(static_cast<size_t>(ranks)),
      received_(static_cast<size_t>(ranks)) {}

Status PointToPoint::begin(std::span<const Transfer> transfers) {
  status_ = {};
  flows_.clear();
  HORING_TRY(copyToSelf(transfers));
  for (const Transfer& transfer : transfers)
    if (transfer.peer != rank_) flowOf(transfer).transfers.push_back(transfer);
  beginCopies();
  flows_running_ = flows_.size();
  settled_ = flows_.empty();
  return {};
}

void PointToPoint::beginCopies() {
  copiers_.clear();
  int flows = 0;
  for (Flow& flow : flows_)
    for (const Transfer& transfer : flow.transfers) {
      if (!transfer.copier) continue;
      if (flow.number < 0) flow.number = flows++;
      if (std::find(copiers_.begin(), copiers_.end(), transfer.copier) == copiers_.end())
        copiers_.push_back(transfer.copier);
    }
  for (MemoryCopier* const copier : copiers_) copier->begin(static_cast<size_t>(flows));
}

Status PointToPoint::copyToSelf(std::span<const Transfer> transfers) {
  HORING_ASSIGN(const std::vector<OwnMessage> messages, ownMessages(rank_, transfers));
  for (const auto& [send, receive] : messages) {
    MemoryCopier* const copier = send->copier ? send->copier : receive->copier;
    if (copier) {
      HORING_TRY(copier->copy(receive->output, send->input, send->bytes, {}));
    } else if (send->bytes > 0) {
      std::memmove(receive->output, send->input, send->bytes);
    }
  }
  return {};
}

PointToPoint::Flow& PointToPoint::flowOf(const Transfer& transfer) {
  for (Flow& flow : flows_)
    if (flow.peer == transfer.peer && flow.direction == transfer.direction) return flow;
  Flow& flow = flows_.emplace_back();
  flow.peer = transfer.peer;
  flow.direction = transfer.direction;
  return flow;
}

bool PointToPoint::poll() {
  bool progressed = false;
  for (Flow& flow : flows_)
    if (!flow.finished()) progressed = advance(flow) || progressed;
  if (flows_running_ == 0 && !settled_) settled_ = settle();
  return progressed;
}

bool PointToPoint::advance(Flow& flow) {
  bool progressed = false;
  for (int budget = kTurn; budget > 0 && !flow.finished(); --budget) {
    if (!(sends(flow) ? trySend(flow) : tryReceive(flow))) break;
    progressed = true;
  }
  if (flow.finished()) --flows_running_;
  return progressed;
}

bool PointToPoint::trySend(Flow& flow) {
  if (!flow.sender && !(flow.sender = connections_.sender(flow.peer))) return false;
  const Transfer& transfer = flow.transfers[flow.current];
  const Tag tag = tagOf(sent_[static_cast<size_t>(flow.peer)], transfer.bytes);
  if (awaitsLandings(flow) && !flow.announced) return tryAnnounce(flow, tag);
  const size_t bytes = std::min<size_t>(slot_bytes_, transfer.bytes - flow.offset);
  std::byte* slot = lands(flow) ? flow.sender->tryAcquireLanding()
                                : flow.sender->tryAcquireFor(static_cast<uint32_t>(bytes));
  if (!slot) return false;
  const std::byte* const data = transfer.input + flow.offset;
  if (transfer.bytes >= kInPlaceBytes && flow.sender->sendsFrom(data, static_cast<uint32_t>(bytes))) {
    flow.sender->postFrom(data, static_cast<uint32_t>(bytes), tag);
  } else {
    if (!transfer.copier && bytes >= kFarBytes && flow.sender->readerIsFar()) {
      streamBytes(data, {&slot, 1}, bytes);
      streamFence();
    } else if (!copy(flow, slot, data, bytes)) {
      return false;
    }
    flow.sender->post(static_cast<uint32_t>(bytes), tag);
  }
  passOn(flow, bytes);
  return true;
}

bool PointToPoint::lands(const Flow& flow) {
  if (flow.transfers[flow.current].bytes < kInPlaceBytes) return false;
  return flow.sender ? flow.sender->hasLandings() : flow.receiver->hasLandings();
}

bool PointToPoint::awaitsLandings(const Flow& flow) {
  return lands(flow) && (flow.sender ? flow.sender->awaitsLandings() : flow.receiver->awaitsLandings());
}

// A message without data before those that wait for a landing: a receiver that expects another size, and may not tell any, sees it.
bool PointToPoint::tryAnnounce(Flow& flow, Tag tag) {
  if (!flow.sender->tryAcquireFor(0)) return false;
  flow.sender->post(0, tag);
  return flow.announced = true;
}

bool PointToPoint::tryReceive(Flow& flow) {
  if (!flow.receiver && !(flow.receiver = connections_.receiver(flow.peer))) return false;
  const Transfer& transfer = flow.transfers[flow.current];
  if (lands(flow) && !flow.told) {
    const auto messages = static_cast<uint32_t>((transfer.bytes + slot_bytes_ - 1) / slot_bytes_);
    flow.told = flow.receiver->tryLand(
        {.memory = transfer.output, .bytes = transfer.bytes, .stride = slot_bytes_, .messages = messages});
    if (!flow.told) return false;
  }
  const Message* message = flow.receiver->tryPeek();
  if (!message) return false;
  const bool announces = awaitsLandings(flow) && !flow.announced;
  const size_t bytes = announces ? 0 : std::min<size_t>(slot_bytes_, transfer.bytes - flow.offset);
  if (message->bytes != bytes ||
      message->tag != tagOf(received_[static_cast<size_t>(flow.peer)], transfer.bytes)) [[unlikely]] {
    rejectMessage(flow, *message);
    return false;
  }
  std::byte* const output = transfer.output + flow.offset;
  if (message->data != output && !copy(flow, output, message->data, bytes)) return false;
  flow.receiver->release();
  if (announces) return flow.announced = true;
  passOn(flow, bytes);
  return true;
}

// To a slot, or from one. False: not all of it yet, or it failed.
bool PointToPoint::copy(Flow& flow, std::byte* to, const std::byte* from, size_t bytes) {
  const Transfer& transfer = flow.transfers[flow.current];
  if (!transfer.copier) {
    if (bytes > 0) copyBytes(from, to, nullptr, bytes);
    return true;
  }
  flow.awaits_copies = false;
  while (flow.copied < bytes && status_.ok()) {
    const auto number = static_cast<size_t>(flow.number);
    std::byte* const target = to + flow.copied;
    const std::byte* const source = from + flow.copied;
    const size_t missing = bytes - flow.copied;
    const size_t left = transfer.bytes - flow.offset - flow.copied;
    const Result<size_t> copied = sends(flow)
                                      ? transfer.copier->tryRead(number, target, source, missing, left)
                                      : transfer.copier->tryWrite(number, target, source, missing, left);
    if (!copied.ok()) {
      fail(flow, copied.status());
    } else if (copied.value() == 0) {
      flow.awaits_copies = true;
      return false;
    } else {
      flow.copied += copied.value();
    }
  }
  return status_.ok();
}

void PointToPoint::fail(const Flow& flow, const Status& copied) {
  status_ = makeStatus(copied.code(), "rank %d, a message %s rank %d: %s", rank_, sends(flow) ? "to" : "from",
                       flow.peer, copied.message().c_str());
}

void PointToPoint::passOn(Flow& flow, size_t bytes) {
  flow.offset += bytes;
  flow.copied = 0;
  if (flow.offset < flow.transfers[flow.current].bytes) return;
  ++(sends(flow) ? sent_ : received_)[static_cast<size_t>(flow.peer)];
  ++flow.current;
  flow.offset = 0;
  flow.told = flow.announced = false;
}

void PointToPoint::rejectMessage(const Flow& flow, const Message& message) {
  if (!status_.ok()) return;
  const Transfer& transfer = flow.transfers[flow.current];
  const uint64_t number = received_[static_cast<size_t>(flow.peer)];
  status_ = makeStatus(
      Code::kInvalidUsage,
      "rank %d expects message #%llu from rank %d to have %zu bytes, and rank %d sent #%llu of %llu bytes: "
      "sends and receives between two ranks meet in the order of their calls and must agree on count and "
      "type",
      rank_, static_cast<unsigned long long>(number), flow.peer, transfer.bytes, flow.peer,
      static_cast<unsigned long long>(message.tag >> 40),
      static_cast<unsigned long long>(message.tag & kSizeMask));
}

bool PointToPoint::settle() {
  bool settled = true;
  for (Flow& flow : flows_) {
    if (flow.receiver) settled = flow.receiver->settle() && settled;
    if (flow.number >= 0) settled = settleCopies(flow) && settled;
  }
  return settled;
}

bool PointToPoint::settleCopies(Flow& flow) {
  flow.awaits_copies = false;
  for (MemoryCopier* const copier : copiers_) {
    if (!status_.ok()) return false;
    const Result<bool> settled = copier->trySettle(static_cast<size_t>(flow.number));
    if (!settled.ok()) {
      fail(flow, settled.status());
    } else if (!settled.value()) {
      flow.awaits_copies = true;
    }
  }
  return status_.ok() && !flow.awaits_copies;
}

bool PointToPoint::done() const {
  return flows_running_ == 0 && settled_ &&
         std::all_of(flows_.begin(), flows_.end(),
                     [this](const Flow& flow) { return !sends(flow) || flow.sender->flushed(); });
}

std::vector<int32_t> PointToPoint::waitsFor() const {
  std::vector<int32_t> ranks;
  for (const Flow& flow : flows_)
    if (flow.awaitsPeer() && std::find(ranks.begin(), ranks.end(), flow.peer) == ranks.end())
      ranks.push_back(flow.peer);
  return ranks;
}

std::vector<int32_t> PointToPoint::waitsFor(Transfer::Direction direction) const {
  std::vector<int32_t> ranks;
  for (const Flow& flow : flows_)
    if (flow.awaitsPeer() && flow.direction == direction) ranks.push_back(flow.peer);
  return ranks;
}

bool PointToPoint::awaitsCopies() const {
  return std::any_of(flows_.begin(), flows_.end(), [](const Flow& flow) { return flow.awaits_copies; });
}

std::string PointToPoint::describeProgress() const {
  std::string text;
  for (const Flow& flow : flows_) {
    if (flow.finished()) continue;
    text += formatString("%s%zu of %zu bytes %s rank %d", text.empty() ? "" : "; ", flow.offset,
                         flow.transfers[flow.current].bytes, sends(flow) ? "to" : "from", flow.peer);
    if (!flow.sender && !flow.receiver) text += ", which is not connected";
    if (flow.awaits_copies) text += ", which wait for a copy of a device";
    if (const size_t more = flow.transfers.size() - flow.current - 1; more > 0)
      text += formatString(" and %zu more messages", more);
  }
  return text.empty() ? "all messages are through; some are not handed over yet" : text;
}

uint64_t PointToPoint::memoryBytes() const {
  return (sent_.capacity() + received_.capacity()) * sizeof(uint64_t);
}

}  // namespace horing
