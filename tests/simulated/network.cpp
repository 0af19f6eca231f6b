#include "network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace horing::simulated {

namespace {

constexpr std::byte kNobodys{0xdb};  // memory that no rank may read or write

bool untouched(const std::byte* memory, size_t bytes) {
  return std::all_of(memory, memory + bytes, [](std::byte b) { return b == kNobodys; });
}

}  // namespace

Connection::Connection(Network& network, uint32_t id, int32_t from, int32_t to, int lane,
                       const LinkShape& shape)
    : network_(network), id_(id), from_(from), to_(to), lane_(lane), shape_(shape) {
  const size_t bytes = size_t{shape.slots} * shape.slot_bytes;
  outgoing_.assign(bytes, kNobodys);
  wire_.assign(bytes, kNobodys);
  incoming_.assign(bytes, kNobodys);
  messages_.resize(shape.slots);
}

bool Connection::SendingEnd::flushed() const {
  if (connection.interrupted_) return connection.arrived_ == connection.posted_;
  return connection.message_left_ns_ <= connection.network_.events_.nowNs();
}
bool Connection::ReceivingEnd::flushed() const {
  if (connection.interrupted_) return connection.credited_ == connection.released_;
  return connection.credit_left_ns_ <= connection.network_.events_.nowNs();
}

std::byte* Connection::tryAcquire() {
  std::byte* slot = outgoing_.data() + slotOf(posted_);
  if (acquired_) return slot;
  if (posted_ - credited_ == shape_.slots) {
    if (receiver_gone_) network_.fail(from_, to_, "has left and will free no slot");
    return nullptr;
  }
  if (!untouched(slot, shape_.slot_bytes))
    network_.violate(*this, "the sender wrote to a slot after it had posted it");
  acquired_ = true;
  return slot;
}

std::byte* Connection::tryAcquireLanding() {
  if (!words_->tryPeek()) return nullptr;
  std::byte* const slot = tryAcquire();
  acquired_landing_ = acquired_landing_ || slot;
  return slot;
}

bool Connection::tryLand(const Landing& landing) {
  std::byte* const word = words_->tryAcquire();
  if (!word) return false;
  std::memcpy(word, &landing, sizeof landing);
  told_.push_back(landing);
  words_->post(sizeof landing, 0);
  return true;
}

std::byte* Connection::takeLanding(uint32_t bytes) {
  Landing landing;
  std::memcpy(&landing, words_->tryPeek()->data, sizeof landing);
  const size_t offset = size_t{landings_taken_} * landing.stride;
  if (bytes > landing.stride || offset + bytes > landing.bytes)
    network_.violate(*this, "a message is longer than where it lands");
  if (++landings_taken_ == landing.messages) {
    landings_taken_ = 0;
    words_->release();
  }
  return landing.memory ? landing.memory + offset : nullptr;
}

void Connection::post(uint32_t bytes, Tag tag) {
  const uint32_t slot_bytes = shape_.slot_bytes;
  HORING_CHECK(acquired_);
  HORING_CHECK_LE(bytes, slot_bytes);
  acquired_ = false;
  const size_t at = slotOf(posted_);
  std::byte* slot = outgoing_.data() + at;
  if (!untouched(slot + bytes, slot_bytes - bytes))
    network_.violate(*this, "the sender wrote beyond its message");
  std::copy_n(slot, bytes, wire_.data() + at);
  std::fill_n(slot, bytes, kNobodys);
  const bool has_landing = std::exchange(acquired_landing_, false);
  std::byte* const landing = has_landing ? takeLanding(bytes) : nullptr;
  posted(posted_) = {
      {landing ? landing : incoming_.data() + at, bytes, tag}, has_landing, landing != nullptr};
  ++posted_;
  if (lane_ < kWords) ++network_.posted_;
  sendPieces(bytes);
}

// Cut at random places, each piece handed over and under way for as long as it likes, in order.
void Connection::sendPieces(uint32_t bytes) {
  if (interrupted_) return;
  const int64_t now = network_.events_.nowNs();
  message_left_ns_ = std::max(message_left_ns_, now);
  auto pieces = static_cast<uint32_t>(network_.dice_.between(1, network_.weather_.pieces));
  for (uint32_t left = bytes; pieces > 0; --pieces) {
    const bool last = pieces == 1;
    const uint32_t size = last ? left : static_cast<uint32_t>(network_.dice_.between(0, left));
    left -= size;
    message_left_ns_ += network_.handoverNs();
    message_arrives_ns_ = std::max(message_arrives_ns_, message_left_ns_ + network_.travelNs());
    network_.events_.add({.at_ns = message_arrives_ns_,
                          .kind = EventKind::kPiece,
                          .subject = id_,
                          .bytes = size,
                          .last = last,
                          .left_ns = message_left_ns_,
                          .life = life_});
  }
  Presence& me = network_.presence(from_);
  me.handed_over_ns = std::max(me.handed_over_ns, message_left_ns_);
}

void Connection::arrive(const Event& piece) {
  const Posted& arriving = posted(arrived_);
  const size_t at = slotOf(arrived_) + arrived_bytes_;
  // The memory of a rank that is gone is, too.
  if (arriving.landed && network_.presence(to_).gone_ns != INT64_MAX) return;
  std::byte* const to = const_cast<std::byte*>(arriving.message.data) + arrived_bytes_;
  if (!arriving.landed && !untouched(to, piece.bytes)) network_.violate(*this, "a free slot was written to");
  std::copy_n(wire_.data() + at, piece.bytes, to);
  arrived_bytes_ += piece.bytes;
  if (!piece.last) return;
  arrived_bytes_ = 0;
  ++arrived_;
  network_.wake(to_);
}

const Message* Connection::tryPeek() {
  if (arrived_ > released_) return &posted(released_).message;
  if (sender_gone_) network_.fail(to_, from_, "has left and will send nothing more");
  return nullptr;
}

void Connection::release() {
  HORING_CHECK_LT(released_, arrived_);
  const Posted& old = posted(released_);
  if (!old.landed) std::fill_n(incoming_.data() + slotOf(released_), old.message.bytes, kNobodys);
  if (old.has_landing && ++landings_used_ == told_.front().messages) {
    landings_used_ = 0;
    told_.pop_front();
  }
  ++released_;
  if (interrupted_) return;
  credit_left_ns_ = std::max(credit_left_ns_, network_.events_.nowNs()) + network_.handoverNs();
  credit_arrives_ns_ = std::max(credit_arrives_ns_, credit_left_ns_ + network_.travelNs());
  network_.events_.add({.at_ns = credit_arrives_ns_,
                        .kind = EventKind::kCredit,
                        .subject = id_,
                        .left_ns = credit_left_ns_,
                        .life = life_});
  Presence& me = network_.presence(to_);
  me.handed_over_ns = std::max(me.handed_over_ns, credit_left_ns_);
}

void Connection::breakOff() {
  if (arrived_bytes_ > 0 && !posted(arrived_).landed)
    std::fill_n(incoming_.data() + slotOf(arrived_), arrived_bytes_, kNobodys);
  arrived_bytes_ = 0;
  ++life_;
  interrupted_ = true;
}

void Connection::makeAgain() {
  const int64_t now_ns = network_.events_.nowNs();
  interrupted_ = false;
  credited_ = released_;
  credit_left_ns_ = credit_arrives_ns_ = now_ns;
  message_left_ns_ = message_arrives_ns_ = now_ns;
  for (uint64_t number = arrived_; number < posted_; ++number) sendPieces(posted(number).message.bytes);
  network_.wake(from_);
  network_.wake(to_);
}

Network::Network(EventQueue& events, Dice& dice, const Weather& weather, const LinkShape& shape,
                 uint32_t landings, int32_t ranks)
    : events_(events),
      dice_(dice),
      weather_(weather),
      shape_(shape),
      landings_(landings),
      presence_(static_cast<size_t>(ranks)),
      of_rank_(static_cast<size_t>(ranks)) {}

Connection& Network::connection(int32_t from, int32_t to, int lane) {
  for (const uint32_t id : of_rank_[static_cast<size_t>(from)]) {
    Connection& known = *connections_[id];
    if (known.from_ == from && known.to_ == to && known.lane_ == lane) return known;
  }
  const auto id = static_cast<uint32_t>(connections_.size());
  const bool is_words = lane >= Connection::kWords;
  const LinkShape of_words{.channels = 1, .slots = landings_, .slot_bytes = 64};
  connections_.push_back(
      std::make_unique<Connection>(*this, id, from, to, lane, is_words ? of_words : shape_));
  of_rank_[static_cast<size_t>(from)].push_back(id);
  of_rank_[static_cast<size_t>(to)].push_back(id);
  Connection& made = *connections_.back();
  if (!is_words && landings_ > 0) made.words_ = &connection(to, from, Connection::kWords + lane);
  return made;
}

int64_t Network::travelNs() {
  int64_t ns = weather_.latency_ns;
  if (weather_.jitter_ns) ns += dice_.between(0, weather_.jitter_ns);
  return weather_.spike_percent && dice_.chance(weather_.spike_percent) ? ns * Weather::kSpike : ns;
}

void Network::wakeAt(int32_t rank, int64_t at_ns) {
  Presence& sleeper = presence(rank);
  if (sleeper.poll_due || sleeper.gone_ns != INT64_MAX) return;
  sleeper.poll_due = true;
  events_.add({.at_ns = at_ns, .kind = EventKind::kPoll, .subject = static_cast<uint32_t>(rank)});
}

void Network::wake(int32_t rank) {
  wakeAt(rank, events_.nowNs() + dice_.between(0, weather_.poll_ns));
}

void Network::handle(const Event& event) {
  if (event.kind == EventKind::kLost)
    return fail(static_cast<int32_t>(event.subject), event.peer, "is lost: the link broke");
  Connection& c = *connections_[event.subject];
  const bool is_under_way = event.kind == EventKind::kPiece || event.kind == EventKind::kCredit;
  if (c.broken_ || (is_under_way && event.life != c.life_)) return;
  switch (event.kind) {
    case EventKind::kPiece:
      // All that comes after it is lost too.
      if (event.left_ns > presence(c.from_).gone_ns) return;
      return c.arrive(event);
    case EventKind::kCredit:
      if (event.left_ns > presence(c.to_).gone_ns) return;
      ++c.credited_;
      return wake(c.from_);
    case EventKind::kSenderGone:
      c.sender_gone_ = true;
      return wake(c.to_);
    case EventKind::kReceiverGone:
      c.receiver_gone_ = true;
      return wake(c.from_);
    case EventKind::kMadeAgain:
      return c.makeAgain();
    case EventKind::kPoll:
    case EventKind::kLost:
      break;
  }
}

void Network::leave(int32_t rank) {
  presence(rank).gone_ns = events_.nowNs();
  for (const uint32_t id : of_rank_[static_cast<size_t>(rank)]) {
    const Connection& c = *connections_[id];
    const bool sends = c.from_ == rank;
    const int64_t last_sign = sends ? c.message_arrives_ns_ : c.credit_arrives_ns_;
    events_.add({.at_ns = std::max(last_sign, events_.nowNs() + travelNs()),
                 .kind = sends ? EventKind::kSenderGone : EventKind::kReceiverGone,
                 .subject = id});
  }
}

void Network::die(int32_t rank) {
  presence(rank).gone_ns = events_.nowNs();
  for (const uint32_t id : of_rank_[static_cast<size_t>(rank)]) {
    const Connection& c = *connections_[id];
    noticeLater(c.from_ == rank ? c.to_ : c.from_, rank);
  }
}

void Network::cut(int32_t a, int32_t b) {
  for (const uint32_t id : of_rank_[static_cast<size_t>(a)])
    if (Connection& c = *connections_[id]; c.from_ == b || c.to_ == b) c.broken_ = true;
  noticeLater(a, b);
  noticeLater(b, a);
}

void Network::breakOff(int32_t a, int32_t b) {
  if (presence(a).gone_ns != INT64_MAX || presence(b).gone_ns != INT64_MAX) return;
  for (const uint32_t id : of_rank_[static_cast<size_t>(a)]) {
    Connection& c = *connections_[id];
    if ((c.from_ != b && c.to_ != b) || c.interrupted_) continue;
    c.breakOff();
    events_.add({.at_ns = events_.nowNs() + 10 * travelNs(), .kind = EventKind::kMadeAgain, .subject = id});
  }
}

int64_t Network::mayLeaveNs(int32_t rank) const {
  int64_t at_ns = events_.nowNs();
  for (const uint32_t id : of_rank_[static_cast<size_t>(rank)]) {
    const Connection& c = *connections_[id];
    if (c.interrupted_) return INT64_MAX;
    if (c.from_ == rank && c.life_ > 0) at_ns = std::max(at_ns, c.message_left_ns_);
  }
  return at_ns;
}

void Network::noticeLater(int32_t rank, int32_t peer) {
  events_.add({.at_ns = events_.nowNs() + travelNs(),
               .kind = EventKind::kLost,
               .subject = static_cast<uint32_t>(rank),
               .peer = peer});
}

void Network::fail(int32_t rank, int32_t peer, const char* cause) {
  Presence& me = presence(rank);
  if (!me.status.ok()) return;
  me.status = makeStatus(Code::kRemoteError, "rank %d: rank %d %s", rank, peer, cause);
  wake(rank);
}

void Network::violate(const Connection& c, const char* what) {
  if (violation_.empty())
    violation_ = formatString("%s: rank %d to rank %d, lane %d", what, c.from_, c.to_, c.lane_);
}

}  // namespace horing::simulated
