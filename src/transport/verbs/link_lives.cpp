// How a path comes to carry data, at first and when it was lost: each end makes a queue pair and offers it, both connect, and each sends
// by it once a packet has got through.
//
// A path has lives. Each begins when an end says kAgain (the first: kHello), or kBroken since it has nothing to offer, and is over when
// both have said kBroken. Words keep their order, so both ends count lives alike, though no word numbers them.
#include <algorithm>
#include <cstring>

#include "transport/verbs/link.h"

namespace horing::verbs {

namespace {

constexpr int64_t kFirstTryNs = 1'000'000'000;
constexpr int kMostDoublings = 6;
// Longer than adapters send a packet again by themselves, unless a setting says so.
constexpr int64_t kProofNs = 10'000'000'000;

}  // namespace

// One that keeps failing costs what it carries the time of all retries, so it is tried less and less often, in the end once a minute. A
// link without any has nothing to lose.
bool VerbsLink::isDue(const LinkPath& path) const {
  if (path.lost_for_good) return false;
  const int doublings = openPaths() > 0 ? std::min(path.losses - 1, kMostDoublings) : 0;
  return options_.clock->nowNs() - path.lost_at_ns >= kFirstTryNs << doublings;
}

bool VerbsLink::isOverdue(const LinkPath& path) const {
  return path.pair && path.heard_on && options_.clock->nowNs() - path.on_since_ns >= kProofNs;
}

void VerbsLink::beginLife(LinkPath& path) {
  path.why_lost.clear();
  path.proven = path.said_broken = path.peer_gave_up = false;
  path.offered = path.heard_offer = path.said_on = path.heard_on = false;
}

// Says what there was no room to say, too.
void VerbsLink::progressLives() {
  if (!said_hello_ || !heard_hello_ || departed_ || said_goodbye_) return;
  for (size_t index = 0; index < paths_.size() && status_.ok(); ++index) {
    LinkPath& path = paths_[index];
    if (path.lost() && !path.said_broken) sayBroken(index);
    const bool port_up = options_.paths[index].device->portUp();
    if (ready() && path.over() && port_up && isDue(path)) {
      beginLife(path);
      offer(index);
    }
    if (path.proven || path.lost()) continue;
    if (!path.pair && port_up && !path.lost_for_good) offer(index);  // the peer's turn came first
    if (path.pair && !path.offered) sayAgain(index);
    if (isOverdue(path)) giveUp(index, "the first packet did not get through");
    if (path.said_on || !path.offered || !path.heard_offer || path.lost()) continue;
    path.said_on = sayPath(Word::kOn, index);
  }
  if (!said_ready_ && openPaths() > 0) said_ready_ = say(Word::kReady, {});
}

void VerbsLink::offer(size_t index) {
  if (const Status opened = openPath(index); !opened.ok()) return giveUp(index, opened.message());
  if (paths_[index].heard_offer) connectPath(index);
}

void VerbsLink::connectPath(size_t index) {
  LinkPath& path = paths_[index];
  const Status on = path.pair->connect(path.theirs, options_.paths[index].theirs, options_.tuning);
  if (!on.ok()) giveUp(index, on.message());
}

void VerbsLink::sayAgain(size_t index) {
  LinkPath& path = paths_[index];
  const Again said{.path = static_cast<uint32_t>(index), .reserved = 0, .hello = helloOf(path)};
  path.offered = say(Word::kAgain, std::as_bytes(std::span(&said, 1)));
}

void VerbsLink::hearAgain(const Again& said) {
  if (said.path >= paths_.size()) return broken("a return of no path");
  LinkPath& path = paths_[said.path];
  if (path.over()) beginLife(path);
  if (path.proven || path.heard_offer || path.peer_gave_up)
    return broken("a return of a path that was not lost");
  path.heard_offer = true;
  path.theirs = said.hello;
  if (path.pair) connectPath(said.path);
}

// The peer is connected to what this end offered, so that a write may arrive.
void VerbsLink::hearOn(uint32_t index) {
  if (index >= paths_.size()) return broken("a path that is on, and is none");
  LinkPath& path = paths_[index];
  if (path.proven || !path.offered || !path.heard_offer || path.heard_on || path.peer_gave_up)
    return broken("a path that is on before its time");
  path.heard_on = true;
  path.on_since_ns = options_.clock->nowNs();
  if (path.lost()) return;
  // As large as packets get, for not every switch passes those.
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
  if (!path.heard_on || !path.pair->settled()) return;
  path.proven = true;
  why_stranded_.clear();
  if (path.losses == 0) return;
  options_.log.warn("verbs", "a path to rank %d is back (%s); %zu of %zu work", options_.peer,
                    options_.paths[index].name.c_str(), openPaths(), paths_.size());
}

}  // namespace horing::verbs
