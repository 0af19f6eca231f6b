#pragma once
// The messages that one end of a control connection has sent, until the other end has confirmed them, so that both ends can
// continue on a new connection after one broke. No I/O, no clock. Not thread-safe.
//
// Both ends count the messages of each direction. Messages that belong to one connection only (heartbeats, and the first messages
// of a connection) are not counted; heartbeats carry the counts.
#include <cstddef>
#include <cstdint>
#include <deque>

#include "control/control_channel.h"

namespace horing {

// The limit of messages kept for a peer that does not confirm.
inline constexpr size_t kMaxJournal = 1024;

class ControlJournal {
 public:
  // A message was sent, or will be sent after reconnecting. Beyond the limit the oldest are dropped and cannot be repeated.
  void keep(SharedMessage message);
  // A message was sent to a peer that never confirms: it and all earlier ones cannot be repeated.
  void pass();
  // The peer has received `count` messages; older confirmations change nothing. False: more than were sent.
  bool acknowledge(uint64_t count);
  // Whether all messages after the first `count` can still be repeated.
  bool reaches(uint64_t count) const { return count >= first_kept_ && count <= sent(); }
  uint64_t sent() const { return first_kept_ + kept_.size(); }
  // Repeats all messages after the first `count`. False, without sending any: they cannot be repeated.
  bool resend(uint64_t count, ControlChannel& channel);

  // Number of messages received from the peer.
  uint64_t received() const { return received_; }
  void noteReceived() { ++received_; }
  size_t kept() const { return kept_.size(); }

 private:
  std::deque<SharedMessage> kept_;
  uint64_t first_kept_ = 0;  // number of the oldest message kept
  uint64_t received_ = 0;
};

}  // namespace horing
