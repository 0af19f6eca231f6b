#include "exchanges.h"

#include <algorithm>

namespace horing::simulated {

namespace {

constexpr uint64_t kMostEvents = 10'000'000;
constexpr size_t kGuard = 16;  // bytes behind what a rank may write to
constexpr std::byte kUnwritten{0xa5};
constexpr int64_t kLongestConnectNs = 50'000;
constexpr Fault kFaults[] = {Fault::kNone,  Fault::kBreak, Fault::kCut,
                             Fault::kDeath, Fault::kBreak, Fault::kDisagreement};
constexpr int64_t kLongestPeace = 20;  // messages from one break to the next

LinkShape shapeOf(Dice& dice) {
  return {.channels = 1,
          .slots = static_cast<uint32_t>(dice.between(2, 6)),
          .slot_bytes = static_cast<uint32_t>(64 * dice.between(1, 4))};
}

}  // namespace

// A rank's end of it all. Its links come up one by one.
struct Exchanges::Rank final : PeerConnections {
  Rank(Exchanges& all, int rank)
      : exchanges(all), number(rank), engine(rank, all.ranks_count_, all.shape_.slot_bytes, *this) {
    for (int peer = 0; peer < all.ranks_count_; ++peer)
      up_ns.push_back(all.dice_.chance(50) ? 0 : all.dice_.between(0, kLongestConnectNs));
  }
  Sender* sender(int peer) override {
    return isUp(peer) ? &exchanges.network_.connection(number, peer, 0).sender() : nullptr;
  }
  Receiver* receiver(int peer) override {
    return isUp(peer) ? &exchanges.network_.connection(peer, number, 0).receiver() : nullptr;
  }
  bool isUp(int peer) {
    const int64_t at_ns = up_ns[static_cast<size_t>(peer)];
    if (at_ns <= exchanges.events_.nowNs()) return true;
    next_up_ns = std::min(next_up_ns, at_ns);
    return false;
  }

  Exchanges& exchanges;
  int number;
  std::vector<int64_t> up_ns;      // of the links, by peer
  int64_t next_up_ns = INT64_MAX;  // of the links that are not up
  PointToPoint engine;
  size_t group = 0;
  bool begun = false;
  bool finished = false;
  Status error;
};

Exchanges::Exchanges(uint64_t seed)
    : seed_(seed),
      dice_(seed),
      ranks_count_(static_cast<int>(dice_.between(1, 7))),
      shape_(shapeOf(dice_)),
      weather_(weatherOf(dice_)),
      network_(events_, dice_, weather_, shape_, 0, ranks_count_),
      groups_(static_cast<size_t>(dice_.between(1, 4))) {
  // All of them, so that each end learns when the other leaves.
  for (int from = 0; from < ranks_count_; ++from)
    for (int to = 0; to < ranks_count_; ++to)
      if (from != to) network_.connection(from, to, 0);
  uint64_t slots = 0;
  for (auto& group : groups_)
    for (int64_t left = dice_.between(0, 4 * ranks_count_); left > 0; --left) {
      Message& message = group.emplace_back();
      message.from = static_cast<int>(dice_.between(0, ranks_count_ - 1));
      message.to = static_cast<int>(dice_.between(0, ranks_count_ - 1));
      const int64_t most = dice_.chance(50) ? 100 : 4 * int64_t{shape_.slots} * shape_.slot_bytes;
      message.bytes = static_cast<size_t>(dice_.between(0, most));
      message.sent.resize(message.bytes);
      for (std::byte& each : message.sent) each = static_cast<std::byte>(dice_.bits());
      message.received.assign(message.bytes + kGuard, kUnwritten);
      slots += message.from == message.to ? 0 : message.bytes / shape_.slot_bytes + 1;
    }
  for (int rank = 0; rank < ranks_count_; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
  fault_ = dice_.oneOf(kFaults);
  if (isOfMessages(fault_))
    fault_after_ = static_cast<uint64_t>(dice_.between(0, static_cast<int64_t>(slots)));
  auto& group = groups_[static_cast<size_t>(dice_.between(0, static_cast<int64_t>(groups_.size()) - 1))];
  if (fault_ == Fault::kDisagreement && !group.empty())
    odd_one_ = &group[static_cast<size_t>(dice_.between(0, static_cast<int64_t>(group.size()) - 1))];
}

Exchanges::~Exchanges() = default;

std::string Exchanges::describe() const {
  size_t messages = 0;
  for (const auto& group : groups_) messages += group.size();
  return formatString(
      "exchanges of seed %llu: %d ranks, %zu groups of %zu messages in all, %u slots of %u bytes, %s",
      static_cast<unsigned long long>(seed_), ranks_count_, groups_.size(), messages, shape_.slots,
      shape_.slot_bytes, faultName(fault_));
}

Exchanges::Outcome Exchanges::run() {
  for (int rank = 0; rank < ranks_count_; ++rank) network_.wakeAt(rank, dice_.between(0, kLongestConnectNs));
  while (!events_.empty() && failure_.empty()) {
    const Event event = events_.take();
    if (event.kind == EventKind::kPoll) {
      poll(static_cast<int>(event.subject));
    } else {
      network_.handle(event);
    }
    if (network_.posted() >= fault_after_) inflictFault();
    if (!network_.violation().empty()) fail(network_.violation());
    if (events_.taken() > kMostEvents) fail("there is no end to it");
  }
  if (failure_.empty()) fail(verdict());
  const auto errors =
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& r) { return !r->error.ok(); });
  return {failure_, received_, events_.fingerprint(), static_cast<int>(errors)};
}

// As Communicator::drive() does: errors of links first, then all that can be done now.
void Exchanges::poll(int number) {
  Rank& rank = *ranks_[static_cast<size_t>(number)];
  Presence& presence = network_.presence(number);
  presence.poll_due = false;
  if (rank.finished || presence.gone_ns != INT64_MAX) return;
  if (rank.group == groups_.size()) return leave(rank);
  if (!presence.status.ok()) return finish(rank, presence.status);
  if (!rank.begun) begin(rank);
  if (rank.finished) return;
  rank.next_up_ns = INT64_MAX;
  const bool progressed = rank.engine.poll();
  if (!rank.engine.status().ok()) return finish(rank, rank.engine.status());
  if (rank.engine.done()) return complete(rank);
  if (progressed) return network_.wake(number);
  // No event wakes it when the last of its messages has left, or a link is up.
  const int64_t handed_over_ns =
      presence.handed_over_ns > events_.nowNs() ? presence.handed_over_ns : INT64_MAX;
  if (const int64_t next_ns = std::min(rank.next_up_ns, handed_over_ns); next_ns != INT64_MAX)
    network_.wakeAt(number, next_ns);
}

void Exchanges::begin(Rank& rank) {
  rank.begun = true;
  std::vector<Transfer> transfers;
  for (Message& message : groups_[rank.group]) {
    if (message.from == rank.number)
      transfers.push_back(
          {.kind = Transfer::Send{message.sent.data()}, .peer = message.to, .bytes = message.bytes});
    if (message.to == rank.number)
      transfers.push_back({.kind = Transfer::Receive{message.received.data()},
                           .peer = message.from,
                           .bytes = message.bytes + (isOdd(message) ? 1 : 0)});
  }
  if (Status begun = rank.engine.begin(transfers); !begun.ok()) finish(rank, std::move(begun));
}

void Exchanges::complete(Rank& rank) {
  for (const Message& message : groups_[rank.group])
    if (message.to == rank.number) check(message);
  rank.begun = false;
  if (++rank.group == groups_.size()) return leave(rank);
  network_.wakeAt(rank.number, events_.nowNs() + dice_.between(0, 1000));
}

void Exchanges::check(const Message& message) {
  ++received_;
  if (isOdd(message))
    return fail(formatString("rank %d got a message of another size than it expected", message.to));
  const bool right = std::equal(message.sent.begin(), message.sent.end(), message.received.begin());
  const bool guarded = std::all_of(message.received.end() - kGuard, message.received.end(),
                                   [](std::byte each) { return each == kUnwritten; });
  if (!right || !guarded)
    fail(formatString("rank %d got %s %zu bytes from rank %d", message.to,
                      right ? "more than" : "something else than the", message.bytes, message.from));
}

void Exchanges::leave(Rank& rank) {
  const int64_t at_ns = network_.mayLeaveNs(rank.number);
  if (at_ns == events_.nowNs()) return finish(rank, {});
  if (at_ns != INT64_MAX) network_.wakeAt(rank.number, at_ns);
}

void Exchanges::finish(Rank& rank, Status error) {
  rank.finished = true;
  rank.error = std::move(error);
  network_.leave(rank.number);
}

void Exchanges::inflictFault() {
  fault_after_ = UINT64_MAX;
  if (fault_ == Fault::kDeath) {
    Rank& victim = *ranks_[static_cast<size_t>(dice_.between(0, ranks_count_ - 1))];
    if (victim.finished) return;
    finish(victim, makeStatus(Code::kRemoteError, "died, as planned"));
    network_.die(victim.number);
  } else if (network_.connectionCount() > 0) {
    const Connection& c = network_.connectionNumber(
        static_cast<size_t>(dice_.between(0, static_cast<int64_t>(network_.connectionCount()) - 1)));
    if (fault_ == Fault::kCut) return network_.cut(c.from(), c.to());
    network_.breakOff(c.from(), c.to());
    fault_after_ = network_.posted() + static_cast<uint64_t>(dice_.between(1, kLongestPeace));
  }
}

std::string Exchanges::verdict() const {
  int errors = 0;
  for (const auto& rank : ranks_) {
    if (!rank->finished)
      return formatString("rank %d waits for ever in group %zu: %s", rank->number, rank->group,
                          rank->engine.obstacle().text.c_str());
    if (!rank->error.ok() && mustEndWell(fault_))
      return formatString("rank %d failed though nothing was lost: %s", rank->number,
                          rank->error.toString().c_str());
    errors += !rank->error.ok();
  }
  return odd_one_ && errors == 0 ? "nobody noticed that two ranks disagree about a message" : "";
}

void Exchanges::fail(const std::string& what) {
  if (failure_.empty() && !what.empty()) failure_ = what + "\n  " + describe() + "\n";
}

}  // namespace horing::simulated
