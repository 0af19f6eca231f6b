#pragma once
// What one end of a control connection has said, until the other end has it: so that both can go on where they were when
// another connection takes the place of one that broke. No I/O, no clock. Not thread-safe.
//
// Both ends count the messages of each direction. What belongs to one connection only (heartbeats, and the words that begin a
// connection) is not counted; heartbeats tell the counts.
#include <cstddef>
#include <cstdint>
#include <deque>

#include "control/control_channel.h"

namespace horing {

// Messages that are kept for a peer that does not say that it has them.
inline constexpr size_t kMaxJournal = 1024;

class ControlJournal {
 public:
  // A message was said, or is to be said when there is a connection again. Too many: the oldest are beyond recall.
  void keep(SharedMessage message);
  // A message was said to a peer that will never tell what it has: it and all before it are beyond recall.
  void pass();
  // The peer has the first `count` messages; earlier news changes nothing. False: more than were said.
  bool acknowledge(uint64_t count);
  // Whether what the peer lacks, which has the first `count`, can still be said.
  bool reaches(uint64_t count) const { return count >= first_kept_ && count <= said(); }
  uint64_t said() const { return first_kept_ + kept_.size(); }
  // Says to the peer, which has the first `count`, all others. False, and nothing is said: it cannot be.
  bool sayRest(uint64_t count, ControlChannel& channel);

  // How many of the peer's messages have come.
  uint64_t heard() const { return heard_; }
  void noteHeard() { ++heard_; }
  size_t kept() const { return kept_.size(); }

 private:
  std::deque<SharedMessage> kept_;
  uint64_t first_kept_ = 0;  // number of the first of them
  uint64_t heard_ = 0;
};

}  // namespace horing
