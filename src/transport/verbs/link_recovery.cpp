// How a path is established, initially and after a loss: each end makes a queue pair and offers it, both connect, and each sends data once
// a packet has arrived.
//
// A path has generations. Each begins when an end sends kAgain (the first: kHello), or kBroken since it has nothing to offer, and ends when
// both have sent kBroken. Control messages are ordered, so both ends count generations alike, without numbers in the messages.
#include <algorithm>

#include "transport/verbs/link.h"

namespace horing::verbs {

namespace {

constexpr int64_t kFirstTryNs = 1'000'000'000;
constexpr int kMostDoublings = 6;
// Longer than adapters retransmit a packet with default settings.
constexpr int64_t kProofNs = 10'000'000'000;

}  // namespace

// A path that keeps failing delays its messages by all retries, so it is retried less and less often, finally once a minute. A link without
// any path retries soon.
bool VerbsLink::isDue(const LinkPath& path) const {
  if (path.lost_for_good) return false;
  const int doublings = openPaths() > 0 ? std::min(path.losses - 1, kMostDoublings) : 0;
  return options_.clock->nowNs() - path.lost_at_ns >= kFirstTryNs << doublings;
}

bool VerbsLink::isOverdue(const LinkPath& path) const {
  return path.pair && path.peers == PathStage::kOn && options_.clock->nowNs() - path.on_since_ns >= kProofNs;
}

void VerbsLink::beginGeneration(LinkPath& path) {
  path.why_lost.clear();
  path.mine = path.peers = PathStage::kBegun;
  path.proven = false;
}

bool VerbsLink::LinkPath::hears(PathStage stage) {
  if (!mayFollow(peers, stage)) return false;
  peers = stage;
  return true;
}

// Also sends messages that had no room before.
void VerbsLink::progressRecovery() {
  const auto is_there = [](LinkStage end) { return end == LinkStage::kGreeted || end == LinkStage::kReady; };
  if (!is_there(mine_) || !is_there(peers_)) return;
  for (size_t index = 0; index < paths_.size() && status_.ok(); ++index) {
    LinkPath& path = paths_[index];
    if (path.lost() && path.mine != PathStage::kBroken) sayBroken(index);
    const bool port_up = options_.paths[index].device->portUp();
    if (ready() && path.over() && port_up && isDue(path)) {
      beginGeneration(path);
      offer(index);
    }
    if (path.proven || path.lost()) continue;
    if (!path.pair && port_up && !path.lost_for_good) offer(index);  // the peer's turn came first
    if (path.pair && path.mine == PathStage::kBegun) sayAgain(index);
    if (isOverdue(path)) giveUp(index, "the first packet did not get through");
    if (path.mine != PathStage::kOffered || path.peers == PathStage::kBegun || path.lost()) continue;
    if (sayPath(ControlTag::kOn, index)) path.mine = PathStage::kOn;
  }
  if (mine_ == LinkStage::kGreeted && openPaths() > 0 && say(ControlTag::kReady, {}))
    mine_ = LinkStage::kReady;
}

void VerbsLink::offer(size_t index) {
  if (const Status opened = openPath(index); !opened.ok()) return giveUp(index, opened.message());
  if (paths_[index].peers != PathStage::kBegun) connectPath(index);
}

void VerbsLink::connectPath(size_t index) {
  LinkPath& path = paths_[index];
  const Status on = path.pair->connect(path.theirs, options_.paths[index].theirs, options_.tuning);
  if (!on.ok()) giveUp(index, on.message());
}

void VerbsLink::sayAgain(size_t index) {
  LinkPath& path = paths_[index];
  const Again said{.path = static_cast<uint32_t>(index), .reserved = 0, .hello = helloOf(path)};
  if (say(ControlTag::kAgain, std::as_bytes(std::span(&said, 1)))) path.mine = PathStage::kOffered;
}

void VerbsLink::hearAgain(const Message& message) {
  Again said;
  if (!read(message, said) || said.path >= paths_.size())
    return broken("the return of a path that does not exist");
  LinkPath& path = paths_[said.path];
  if (path.over()) beginGeneration(path);
  if (!path.hears(PathStage::kOffered)) return broken("a return of a path that was not lost");
  path.theirs = said.hello;
  if (path.pair) connectPath(said.path);
}

// The peer is connected to this end's queue pair, so that a write can arrive.
void VerbsLink::hearOn(const Message& message) {
  uint32_t index = 0;
  if (!read(message, index) || index >= paths_.size()) return broken("the use of a path that does not exist");
  LinkPath& path = paths_[index];
  if (path.mine == PathStage::kBegun || !path.hears(PathStage::kOn))
    return broken("the use of a path too early");
  path.on_since_ns = options_.clock->nowNs();
  if (path.lost()) return;
  // Of the largest packet size, since not every switch passes such packets.
  const uint32_t bytes = 128u << path.pair->mtu();
  const Piece packet{
      .from = slots_.get() + slotBytes(), .bytes = bytes, .local_key = path.outgoing.localKey()};
  const Status probing = path.pair->probe({.pieces = {packet},
                                           .to = peer_slots_ + slotBytes(),
                                           .remote_key = path.theirs.remote_key,
                                           .immediate = {}});
  if (!probing.ok()) postFailed(path, probing);
}

void VerbsLink::prove(size_t index) {
  LinkPath& path = paths_[index];
  if (path.peers != PathStage::kOn || !path.pair->settled()) return;
  path.proven = true;
  why_stranded_.clear();
  if (path.losses == 0) return;
  options_.log.warn("verbs", "a path to rank %d is back (%s); %zu of %zu work", options_.peer,
                    options_.paths[index].name.c_str(), openPaths(), paths_.size());
}

}  // namespace horing::verbs
