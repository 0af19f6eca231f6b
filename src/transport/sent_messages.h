#pragma once
// The messages that one end of a connection has posted and the peer has not released yet, for transports that retransmit. A message takes
// one of several *ways* (a TCP stream, a queue pair), and a way may be lost with its messages.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/channel_state.h"

namespace horing {

inline constexpr uint16_t kNoWay = UINT16_MAX;

// What a sender's caller has acquired for the next message, until it is posted.
enum class Acquired : uint8_t { kNothing, kSlot, kLanding };

// A ring of messages by number, from 0. `Message` has the members `way` (the way that the message takes or took) and `is_sent` (nothing is
// left to do for the message unless its way is lost), and whatever the transport needs to send it again. Only the constructor allocates.
template <typename Message>
class SentMessages {
 public:
  explicit SentMessages(size_t slots) : ring_(slots) {}

  // Every slot is taken by a message that the peer has not released.
  bool full() const { return posted_ - released_ >= ring_.size(); }
  uint64_t posted() const { return posted_; }
  uint64_t released() const { return released_; }
  bool allSent() const { return unsent_ == 0; }
  Message& at(uint64_t sequence) { return ring_[sequence % ring_.size()]; }
  const Message& at(uint64_t sequence) const { return ring_[sequence % ring_.size()]; }
  size_t slotOf(uint64_t sequence) const { return sequence % ring_.size(); }

  // Returns its number.
  uint64_t post(const Message& message) {
    at(posted_) = message;
    ++unsent_;
    return posted_++;
  }
  void noteSent(uint64_t sequence) {
    at(sequence).is_sent = true;
    --unsent_;
  }

  // The peer has released all messages before number `count`; a count lower than an earlier one is stale. Calls `released(message)` for
  // each. False: the peer cannot have released them, since a message was never posted, or is not sent and not `may_have_come(message)`.
  bool takeCredit(uint64_t count, auto&& may_have_come, auto&& released) {
    if (count > posted_) return false;
    for (; released_ < count; ++released_) {
      const Message& message = at(released_);
      if (!message.is_sent) {
        if (!may_have_come(message)) return false;
        noteSent(released_);
      }
      released(message);
    }
    return true;
  }

  // Messages sent by this way may have been lost; settle() decides.
  void wayBroke(size_t way) {
    for (uint64_t sequence = released_; sequence < posted_; ++sequence)
      if (at(sequence).way == way && at(sequence).is_sent) noteLost(sequence);
  }
  // Takes the state that the peer reports for a way that was lost or is open again. Calls `send_again(sequence)` for each message of that
  // way that the peer lacks. False, without effect: the peer claims messages that were never posted.
  bool settle(size_t way, const ChannelState& theirs, auto&& send_again) {
    if (theirs.hasAnyFrom(posted_)) return false;
    for (uint64_t sequence = released_; sequence < posted_; ++sequence) {
      const Message& message = at(sequence);
      if (message.way != way) continue;
      const bool has_come = theirs.has(sequence);
      if (has_come && !message.is_sent) noteSent(sequence);
      if (!has_come && message.is_sent) noteLost(sequence);
      if (!has_come) send_again(sequence);
    }
    return true;
  }

 private:
  void noteLost(uint64_t sequence) {
    at(sequence).is_sent = false;
    ++unsent_;
  }

  std::vector<Message> ring_;
  uint64_t posted_ = 0;
  uint64_t released_ = 0;
  uint64_t unsent_ = 0;
};

}  // namespace horing
