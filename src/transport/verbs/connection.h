#pragma once
// The two ends of a connection over RDMA. Both only count and mark; VerbsLink has the bytes moved.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "transport/transport.h"
#include "transport/verbs/wire.h"

namespace horing::verbs {

class VerbsLink;

inline constexpr uint16_t kNoPath = UINT16_MAX;

class VerbsSender final : public Sender {
 public:
  // `slots`: slotStride() bytes each, see wire.h.
  VerbsSender(VerbsLink& link, uint32_t channel, std::byte* slots);

  std::byte* tryAcquire() override;
  void post(uint32_t bytes, Tag tag) override;
  // An adapter has everything, and needs nobody's help to deliver it. What lies in a caller's memory may have to be sent again by
  // another path until the peer says that it has it.
  bool flushed() const override { return unsent_ == 0 && credited_ >= lent_before_; }
  bool sendsFrom(const std::byte* memory, uint32_t bytes) const override;
  void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) override;

  uint64_t posted() const { return posted_; }
  uint64_t credited() const { return credited_; }
  // The peer has released all messages before number `credit`; lower ones than before are stale. False: it cannot have.
  bool takeCredit(uint64_t credit);
  // The message has been given to a path.
  void sent(uint64_t sequence, uint16_t path);
  uint32_t bytesOf(uint64_t sequence) const { return at(sequence).bytes; }
  // Null: it lies in its slot.
  const std::byte* callersMemoryOf(uint64_t sequence) const { return at(sequence).memory; }
  std::byte* headerOf(uint64_t sequence) const;
  // A path is gone, and the peer says what it has: queues the rest again. False: it cannot have that.
  bool pathGone(uint16_t path, const ChannelState& theirs);

 private:
  struct Sent {
    const std::byte* memory = nullptr;  // of a caller; null: in the slot
    uint32_t bytes = 0;
    uint16_t path = kNoPath;
  };
  void enqueue(const Sent& message, const SlotHeader& header);
  Sent& at(uint64_t sequence) { return sent_[sequence % sent_.size()]; }
  const Sent& at(uint64_t sequence) const { return sent_[sequence % sent_.size()]; }

  VerbsLink& link_;
  uint32_t channel_;
  std::byte* slots_;
  uint64_t posted_ = 0;
  uint64_t credited_ = 0;
  uint64_t unsent_ = 0;
  uint64_t lent_before_ = 0;  // all messages in callers' memory have lower numbers
  bool acquired_ = false;
  std::vector<Sent> sent_;
};

class VerbsReceiver final : public Receiver {
 public:
  VerbsReceiver(VerbsLink& link, uint32_t channel, std::byte* slots);

  const Message* tryPeek() override;
  void release() override;
  bool flushed() const override;
  bool settle() override;

  // Message `sequence` is complete in its slot, header and all. False: it cannot have come now.
  bool arrived(uint64_t sequence, uint32_t bytes);
  const std::byte* headerOf(uint64_t sequence) const;
  ChannelState state() const;
  uint64_t released() const { return released_; }
  uint64_t creditSent() const { return credit_sent_; }
  void noteCreditSent(uint64_t credit) { credit_sent_ = std::max(credit_sent_, credit); }

 private:
  struct Slot {
    bool full = false;
    bool is_lent = false;  // it lies in memory of the sender's caller
    uint32_t bytes = 0;
    Tag tag = 0;
  };

  VerbsLink& link_;
  uint32_t channel_;
  std::byte* slots_;
  uint64_t released_ = 0;
  uint64_t credit_sent_ = 0;
  uint64_t awaited_ = 0;  // the credit that the sender waits for before its caller has its memory back
  std::vector<Slot> state_;
  Message message_;
};

}  // namespace horing::verbs
