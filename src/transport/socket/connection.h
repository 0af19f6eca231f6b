#pragma once
// The two ends of a connection over streams. Both only count and mark; SocketLink moves the bytes.
#include <cstdint>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace horing::tcp {

class SocketLink;

class SocketSender final : public Sender {
 public:
  SocketSender(SocketLink& link, int channel, std::byte* slots);

  std::byte* tryAcquire() override;
  void post(uint32_t bytes, Tag tag) override;
  bool flushed() const override { return unsent_ == 0; }

  uint64_t posted() const { return posted_; }
  // The peer has released all messages before number `credit`; lower ones than before are stale. False: it cannot have.
  bool takeCredit(uint64_t credit);
  void frameSent() { --unsent_; }

 private:
  SocketLink& link_;
  int channel_;
  std::byte* slots_;
  uint64_t posted_ = 0;
  uint64_t credited_ = 0;
  uint64_t unsent_ = 0;  // posted messages of which the kernel does not have everything
  bool acquired_ = false;
  // Which stream each slot's message went by, and its size: how much is under way on each stream.
  struct Sent {
    uint32_t bytes = 0;
    int stream = 0;
  };
  std::vector<Sent> sent_;
};

class SocketReceiver final : public Receiver {
 public:
  SocketReceiver(SocketLink& link, int channel, std::byte* slots);

  const Message* tryPeek() override;
  void release() override;
  bool flushed() const override;

  // Where message `sequence` goes, or nullptr: it cannot come now (its slot is in use, or it has been here).
  std::byte* reserve(uint64_t sequence);
  void arrived(uint64_t sequence, uint32_t bytes, Tag tag);
  uint64_t released() const { return released_; }
  uint64_t creditSent() const { return credit_sent_; }
  void noteCreditSent(uint64_t credit);
  // At most one frame of this channel's credit waits to be written: true if there was none.
  bool claimCreditFrame() { return !std::exchange(credit_frame_, true); }
  void creditFrameSent() { credit_frame_ = false; }

 private:
  enum class SlotState : uint8_t { kFree, kArriving, kFull };
  struct Slot {
    SlotState state = SlotState::kFree;
    uint32_t bytes = 0;
    Tag tag = 0;
  };

  SocketLink& link_;
  int channel_;
  std::byte* slots_;
  uint64_t released_ = 0;
  uint64_t credit_sent_ = 0;
  bool credit_frame_ = false;
  std::vector<Slot> state_;
  Message message_;
};

}  // namespace horing::tcp
