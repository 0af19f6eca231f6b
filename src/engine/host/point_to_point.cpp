#include "engine/host/point_to_point.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/overloaded.h"
#include "engine/host/fold.h"
#include "engine/host/message_tag.h"

namespace horing {

namespace {

// Slots that one flow may fill or empty before the next flow's turn.
constexpr int kTurn = 4;
// Complete messages that a flow keeps at most: one that more messages join before all are complete never empties.
constexpr size_t kMostPassed = 256;

// Precedes a tagged message, in a slot of its own.
struct MessageHeader {
  uint64_t tag;
  uint64_t bytes;
};

}  // namespace

Result<std::vector<OwnMessage>> ownMessages(int rank, std::span<const Transfer> transfers) {
  std::vector<const Transfer*> sends, receives;
  for (const Transfer& transfer : transfers)
    if (transfer.peer == rank && !transfer.isOneSided())
      (transfer.direction() == Transfer::Direction::kSend ? sends : receives).push_back(&transfer);
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

PointToPoint::PointToPoint(int rank, int ranks, uint32_t slot_bytes, PeerConnections& connections,
                           int signals, MessageRecorder* recorder)
    : rank_(rank),
      slot_bytes_(slot_bytes),
      connections_(connections),
      sent_(static_cast<size_t>(ranks)),
      received_(static_cast<size_t>(ranks)),
      inbox_(rank),
      signals_(ranks, signals),
      recorder_(recorder),
      records_all_(recorder && recorder->keepsAll()) {}

Status PointToPoint::begin(std::span<const Transfer> transfers) {
  HORING_TRY(status_);
  // A message that is being put aside continues.
  std::erase_if(flows_, [this](const Flow& flow) { return isIdle(flow); });
  HORING_TRY(copyToSelf(transfers));
  const bool records_each = records_all_ && recordCall(transfers, group_record_);
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == rank_ && !transfer.isOneSided()) continue;
    records_each ? addRecorded(transfer) : add(transfer);
  }
  beginCopies();
  settled_ = open_ == 0;
  if (settled_) endGroupRecord();
  return {};
}

void PointToPoint::join(std::span<const Transfer> transfers, uint64_t ticket) {
  Ticket& call = tickets_[ticket];
  call.open = transfers.size();
  const bool records_each = records_all_ && recordCall(transfers, call.record);
  for (Transfer transfer : transfers) {
    transfer.ticket = ticket;
    records_each ? addRecorded(transfer) : add(transfer);
  }
  settled_ = false;
}

uint64_t PointToPoint::takeFinished() {
  const auto found = std::find_if(completed_.begin(), completed_.end(), [&](uint64_t number) {
    const std::vector<Sender*>& senders = tickets_.at(number).senders;
    return std::all_of(senders.begin(), senders.end(),
                       [](const Sender* sender) { return sender->flushed(); });
  });
  if (found == completed_.end()) return 0;
  const uint64_t number = *found;
  completed_.erase(found);
  tickets_.erase(number);
  return number;
}

void PointToPoint::add(const Transfer& transfer) {
  ++open_;
  const auto enqueue = [&] { flowOf(transfer.peer, transfer.direction()).transfers.push_back(transfer); };
  const auto arrives_by_itself = [] { HORING_CHECK(!"a message that no caller adds"); };
  std::visit(Overloaded{
                 [&](const Transfer::Send&) { enqueue(); },
                 [&](const Transfer::Receive&) { enqueue(); },
                 [&](const Transfer::TaggedSend&) { enqueue(); },
                 [&](const Transfer::TaggedReceive&) { receiveWithTag(transfer); },
                 [&](const Transfer::Kept&) { arrives_by_itself(); },
                 [&](const Transfer::Put& put) { addPut(transfer, put); },
                 [&](const Transfer::ArrivingPut&) { arrives_by_itself(); },
                 [&](const Transfer::SignalWait& wait) { awaitSignals(transfer, wait); },
             },
             transfer.kind);
}

void PointToPoint::receiveWithTag(const Transfer& receive) {
  const auto ranks = static_cast<int>(received_.size());
  const bool from_any = receive.peer == kAnyRank;
  for (int peer = from_any ? 0 : receive.peer; peer < (from_any ? ranks : receive.peer + 1); ++peer)
    if (peer != rank_) flowOf(peer, Transfer::Direction::kReceive);
  const Result<std::optional<int>> received = inbox_.post(receive);
  if (!received.ok()) {
    status_ = received.status();
  } else if (const std::optional<int>& from = received.value()) {
    Transfer complete = receive;
    complete.peer = *from;
    noteComplete(nullptr, complete);
  }
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
      HORING_TRY(copier->copy(receive->output(), send->input(), send->bytes, {}));
    } else if (send->bytes > 0) {
      std::memmove(receive->output(), send->input(), send->bytes);
    }
  }
  return {};
}

PointToPoint::Flow& PointToPoint::flowOf(int peer, Transfer::Direction direction) {
  for (Flow& flow : flows_)
    if (flow.peer == peer && flow.direction == direction) return flow;
  Flow& flow = flows_.emplace_back();
  flow.peer = peer;
  flow.direction = direction;
  return flow;
}

bool PointToPoint::poll() {
  bool progressed = false;
  for (Flow& flow : flows_)
    if (!isIdle(flow)) progressed = advance(flow) || progressed;
  if (open_ == 0 && !settled_) {
    settled_ = settle();
    endGroupRecord();
  }
  return progressed;
}

bool PointToPoint::advance(Flow& flow) {
  if (!flow.isUp() && !bind(flow)) return false;
  bool progressed = false;
  for (int budget = kTurn; budget > 0 && !isIdle(flow); --budget) {
    if (!tryStage(flow)) break;
    progressed = true;
  }
  return progressed;
}

bool PointToPoint::bind(Flow& flow) {
  if (sends(flow)) {
    if (Sender* const sender = connections_.sender(flow.peer)) flow.send = SendEnd(*sender);
  } else {
    flow.receiver = connections_.receiver(flow.peer);
    if (flow.receiver) {
      flow.landings = flow.receiver->landings();
      flow.lent = flow.receiver->lent();
    }
  }
  return flow.isUp();
}

bool PointToPoint::tryStage(Flow& flow) {
  if (isPlain(flow)) [[likely]]
    return sends(flow) ? trySend(flow) : tryReceive(flow);
  const Stage stage = stageOf(flow);
  bool done = false;
  switch (stage) {
    case Stage::kHeader:
      done = sends(flow) ? trySendHeader(flow) : tryReceiveHeader(flow);
      if (done && flow.transfers[flow.current].isOneSided() && flow.transfers[flow.current].bytes == 0) {
        passOn(flow, 0);  // the header is all of it
        return true;
      }
      break;
    case Stage::kLanding:
      done = tryTellLanding(flow);
      break;
    case Stage::kAnnouncement:
      done = sends(flow) ? tryAnnounce(flow) : tryHearAnnouncement(flow);
      break;
    case Stage::kData:  // passOn() advances to the next message
      return sends(flow) ? trySend(flow) : tryReceive(flow);
  }
  if (done) flow.stage = static_cast<Stage>(static_cast<int>(stage) + 1);
  return done;
}

// The first stage from there on that the message has. Both ends agree whether there is a landing, and an announcement.
inline PointToPoint::Stage PointToPoint::stageOf(const Flow& flow) const {
  const bool has_header = sends(flow) ? flow.transfers[flow.current].goesBeside() : flow.finished();
  if (flow.stage == Stage::kHeader && has_header) return Stage::kHeader;
  if (flow.stage == Stage::kData || !lands(flow)) return Stage::kData;
  if (flow.stage <= Stage::kLanding && !sends(flow)) return Stage::kLanding;
  const bool awaits = sends(flow) ? flow.send.landings->awaitsLandings() : flow.landings->awaitsLandings();
  return awaits ? Stage::kAnnouncement : Stage::kData;
}

// A small message without a tag, as most are: nothing but its data.
inline bool PointToPoint::isPlain(const Flow& flow) const {
  if (flow.finished()) return false;
  const Transfer& transfer = flow.transfers[flow.current];
  return transfer.bytes < kInPlaceBytes && !transfer.goesBeside();
}

inline bool PointToPoint::lands(const Flow& flow) const {
  return flow.transfers[flow.current].bytes >= kInPlaceBytes && (flow.send.landings || flow.landings);
}

inline Tag PointToPoint::tagOf(const Flow& flow) const {
  const auto peer = static_cast<size_t>(flow.peer);
  return messageTag(sends(flow) ? sent_[peer] : received_[peer], flow.transfers[flow.current].bytes);
}

bool PointToPoint::postHeader(const Flow& flow, std::span<const std::byte> header, uint64_t mark) {
  const SendEnd::Piece piece = flow.send.tryAcquire(header.size(), false, nullptr);
  if (!piece) return false;
  std::memcpy(piece.room, header.data(), header.size());
  flow.send.post(piece, header.size(), messageTag(sent_[static_cast<size_t>(flow.peer)], mark));
  return true;
}

bool PointToPoint::trySendHeader(const Flow& flow) {
  const Transfer& transfer = flow.transfers[flow.current];
  if (const auto* const put = std::get_if<Transfer::Put>(&transfer.kind)) return trySendPutHeader(flow, *put);
  const MessageHeader header{std::get<Transfer::TaggedSend>(transfer.kind).tag, transfer.bytes};
  return postHeader(flow, std::as_bytes(std::span(&header, 1)), kHeaderMark);
}

// No message is being received from the peer.
bool PointToPoint::tryReceiveHeader(Flow& flow) {
  if (!awaitsHeader(flow) && !flow.receiver->hasMessage()) return false;
  const Message* message = flow.receiver->tryPeek();
  if (message && message->tag == messageTag(received_[static_cast<size_t>(flow.peer)], kPutMark))
    return tryReceivePut(flow, *message);
  MessageHeader header{};
  // An untagged message waits for an untagged receive.
  if (!message || message->bytes != sizeof header ||
      message->tag != messageTag(received_[static_cast<size_t>(flow.peer)], kHeaderMark))
    return false;
  std::memcpy(&header, message->data, sizeof header);
  Result<std::optional<Transfer>> arriving = inbox_.arrive(flow.peer, header.tag, header.bytes);
  if (!arriving.ok()) {
    status_ = arriving.status();
    return false;
  }
  if (!arriving.value()) return false;
  flow.receiver->release();
  flow.transfers.push_back(*arriving.value());
  return true;
}

bool PointToPoint::tryTellLanding(const Flow& flow) {
  const Transfer& transfer = flow.transfers[flow.current];
  const auto messages = static_cast<uint32_t>((transfer.bytes + slot_bytes_ - 1) / slot_bytes_);
  return flow.landings->tryLand(
      {.memory = transfer.output(), .bytes = transfer.bytes, .stride = slot_bytes_, .messages = messages});
}

// A message without data before those that wait for a landing, so that a receiver that expects another size, and may not tell a
// landing, notices.
bool PointToPoint::tryAnnounce(const Flow& flow) {
  const SendEnd::Piece piece = flow.send.tryAcquire(0, false, nullptr);
  if (piece) flow.send.post(piece, 0, tagOf(flow));
  return static_cast<bool>(piece);
}

bool PointToPoint::tryHearAnnouncement(const Flow& flow) {
  if (!tryPeek(flow, 0)) return false;
  flow.receiver->release();
  return true;
}

bool PointToPoint::trySend(Flow& flow) {
  const Transfer& transfer = flow.transfers[flow.current];
  const size_t bytes = std::min<size_t>(slot_bytes_, transfer.bytes - flow.offset);
  const std::byte* const data = transfer.input() + flow.offset;
  const SendEnd::Piece piece =
      flow.send.tryAcquire(bytes, lands(flow), transfer.bytes >= kInPlaceBytes ? data : nullptr);
  if (!piece) return false;
  if (piece.room) {
    if (!transfer.copier && flow.send.readerIsFar(bytes)) {
      streamBytes(data, {&piece.room, 1}, bytes);
      streamFence();
    } else if (!copy(flow, piece.room, data, bytes)) {
      return false;
    }
  }
  flow.send.post(piece, bytes, tagOf(flow));
  passOn(flow, bytes);
  return true;
}

bool PointToPoint::tryReceive(Flow& flow) {
  const Transfer& transfer = flow.transfers[flow.current];
  const size_t bytes = std::min<size_t>(slot_bytes_, transfer.bytes - flow.offset);
  const Message* const message = tryPeek(flow, bytes);
  if (!message) return false;
  std::byte* const output = transfer.output() + flow.offset;
  if (message->data != output && !copy(flow, output, message->data, bytes)) return false;
  flow.receiver->release();
  passOn(flow, bytes);
  return true;
}

const Message* PointToPoint::tryPeek(const Flow& flow, size_t bytes) {
  const Message* const message = flow.receiver->tryPeek();
  if (!message || (message->bytes == bytes && message->tag == tagOf(flow))) return message;
  rejectMessage(flow, *message);
  return nullptr;
}

// Copies to or from a slot. False: not complete yet, or failed.
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
  if (flow.offset < flow.transfers[flow.current].bytes) {
    if (flow.transfers[flow.current].record != 0) recorder_->start(flow.transfers[flow.current].record);
    return;
  }
  const Transfer transfer = flow.transfers[flow.current];
  ++(sends(flow) ? sent_ : received_)[static_cast<size_t>(flow.peer)];
  if (++flow.current == flow.transfers.size() || flow.current == kMostPassed) {
    flow.transfers.erase(flow.transfers.begin(),
                         flow.transfers.begin() + static_cast<ptrdiff_t>(flow.current));
    flow.current = 0;
  }
  flow.offset = 0;
  flow.stage = Stage::kHeader;
  const auto complete = [&] { noteComplete(flow.send.sender, transfer); };
  const auto match = [&] {
    if (const std::optional<Transfer> receive = inbox_.complete(transfer)) noteComplete(nullptr, *receive);
  };
  std::visit(Overloaded{
                 [&](const Transfer::Send&) { complete(); },
                 [&](const Transfer::Receive&) { complete(); },
                 [&](const Transfer::TaggedSend&) { complete(); },
                 [&](const Transfer::TaggedReceive&) { match(); },
                 [&](const Transfer::Kept&) { match(); },
                 [&](const Transfer::Put&) { complete(); },
                 [&](const Transfer::ArrivingPut& put) { noteSignal(flow.peer, put.signal); },
                 [](const Transfer::SignalWait&) { HORING_CHECK(!"a wait has no data"); },
             },
             transfer.kind);
}

void PointToPoint::noteComplete(Sender* sender, const Transfer& transfer) {
  --open_;
  if (transfer.record != 0) [[unlikely]]
    recorder_->end(transfer.record, transfer.peer);
  if (transfer.ticket == 0) return;
  Ticket& call = tickets_.at(transfer.ticket);
  if (sender) call.senders.push_back(sender);
  if (--call.open > 0) return;
  completed_.push_back(transfer.ticket);
  if (call.record != 0) [[unlikely]]
    recorder_->end(call.record);
}

void PointToPoint::rejectMessage(const Flow& flow, const Message& message) {
  if (!status_.ok()) return;
  const Transfer& transfer = flow.transfers[flow.current];
  const uint64_t number = received_[static_cast<size_t>(flow.peer)];
  if ((message.tag & kSizeMask) == kHeaderMark) {
    status_ =
        makeStatus(Code::kInvalidUsage,
                   "rank %d expects message #%llu from rank %d to have no tag, and it has one: a receive "
                   "without a tag meets sends without one only",
                   rank_, static_cast<unsigned long long>(number), flow.peer);
    return;
  }
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
    if (flow.lent) settled = flow.lent->settle() && settled;
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
  return open_ == 0 && settled_ && tickets_.empty() &&
         std::all_of(flows_.begin(), flows_.end(),
                     [this](const Flow& flow) { return !sends(flow) || flow.send.sender->flushed(); });
}

Obstacle PointToPoint::obstacle() const {
  return {peersOf(Transfer::Direction::kReceive), describe(), peersOf(Transfer::Direction::kSend)};
}

PeerWaits PointToPoint::waits() const {
  PeerWaits found;
  for (const Flow& flow : flows_)
    if (flow.awaitsPeer()) found.add({.peer = flow.peer, .for_room = sends(flow)});
  return found;
}

// The flows that must act for incomplete messages.
std::vector<int32_t> PointToPoint::peersOf(Transfer::Direction direction) const {
  const bool receives = direction == Transfer::Direction::kReceive;
  std::vector<int32_t> ranks = receives ? inbox_.waitsFor() : std::vector<int32_t>();
  const auto add = [&ranks](int32_t peer) {
    if (std::find(ranks.begin(), ranks.end(), peer) == ranks.end()) ranks.push_back(peer);
  };
  for (const Flow& flow : flows_)
    if (flow.awaitsPeer() && flow.direction == direction) add(flow.peer);
  if (receives)
    for (const int32_t peer : signals_.waitsFor()) add(peer);
  return ranks;
}

Pause PointToPoint::pause() const {
  Pause pause = Pause::kUntilRung;
  for (const Flow& flow : flows_) {
    if (flow.awaits_copies) return Pause::kForCopies;
    if (!isIdle(flow) && !flow.isUp()) pause = Pause::kBriefly;
  }
  return pause;
}

std::string PointToPoint::describe() const {
  std::string text;
  for (const Flow& flow : flows_) {
    if (flow.finished()) continue;
    text += formatString("%s%zu of %zu bytes %s rank %d", text.empty() ? "" : "; ", flow.offset,
                         flow.transfers[flow.current].bytes, sends(flow) ? "to" : "from", flow.peer);
    if (!flow.isUp()) text += ", which is not connected";
    if (flow.awaits_copies) text += ", which wait for a copy of a device";
    if (const size_t more = flow.transfers.size() - flow.current - 1; more > 0)
      text += formatString(" and %zu more messages", more);
  }
  for (const std::string& waiting : {inbox_.describe(), signals_.describe()})
    if (!waiting.empty()) text += (text.empty() ? "" : "; ") + waiting;
  return text.empty() ? "all messages are complete; some are not handed over yet" : text;
}

uint64_t PointToPoint::memoryBytes() const {
  return (sent_.capacity() + received_.capacity()) * sizeof(uint64_t) + inbox_.memoryBytes();
}

}  // namespace horing
