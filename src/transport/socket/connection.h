#pragma once
// The two ends of a connection over streams. Both count and mark, and SocketLink moves the bytes, but for what leaves lent memory.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "transport/socket/wire.h"
#include "transport/transport.h"

namespace horing::tcp {

class SocketLink;

class SocketSender final : public Sender {
 public:
  SocketSender(SocketLink& link, int channel, std::byte* slots);

  std::byte* tryAcquire() override;
  std::byte* tryAcquireLanding() override;
  void post(uint32_t bytes, Tag tag) override;
  bool flushed() const override { return unsent_ == 0; }
  bool hasLandings() const override { return true; }
  bool sendsFrom(const std::byte* memory, uint32_t bytes) const override;
  void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) override;
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  uint64_t acknowledged() const override { return credited_; }

  bool hasOwnSlots() const { return has_own_slots_; }
  uint64_t posted() const { return posted_; }
  // The peer has released all messages before number `credit`; lower ones than before are stale. False: it cannot have.
  bool takeCredit(uint64_t credit);
  // The kernel has all of this message.
  void frameSent(uint64_t sequence);

  // What went by this stream and is not credited may have been lost.
  void streamBroke(size_t stream);
  // The stream is there (again), and the peer says what it has: queues the rest. False: it cannot have that.
  bool streamBegan(size_t stream, const ChannelState& theirs);
  // The stream is given up, and the peer says what it has: the rest goes by others. False: it cannot have that.
  bool streamGivenUp(size_t stream, const ChannelState& theirs);
  // The region goes: what may have to be sent (again) from it, since no credit has come, moves to its slots.
  // Whether any did.
  bool withdraw(const Region& region);

 private:
  SocketLink& link_;
  int channel_;
  std::byte* slots_;
  bool has_own_slots_ = true;
  uint64_t posted_ = 0;
  uint64_t credited_ = 0;
  uint64_t unsent_ = 0;       // posted messages of which the kernel does not have everything
  uint64_t lent_before_ = 0;  // all messages in callers' memory have lower numbers
  uint64_t landings_ = 0;     // messages that have one, so far
  bool acquired_ = false;
  bool has_landing_ = false;  // what was acquired
  FrameHeader headerOf(uint64_t sequence) const;
  std::byte* slotOf(uint64_t sequence) const;
  const std::byte* payloadOf(uint64_t sequence) const;

  // What each slot's message is, should it be needed again, and which stream it belongs to.
  struct Sent {
    Tag tag = 0;
    const std::byte* memory = nullptr;  // of a caller; null: in the slot
    uint64_t landing = 0;               // of the header
    uint32_t bytes = 0;
    uint16_t stream = 0;
    bool written = false;  // the kernel has it, or even the peer
  };
  void enqueue(Sent message);
  Sent& at(uint64_t sequence) { return sent_[sequence % sent_.size()]; }
  const Sent& at(uint64_t sequence) const { return sent_[sequence % sent_.size()]; }
  std::vector<Sent> sent_;
};

class SocketReceiver final : public Receiver {
 public:
  SocketReceiver(SocketLink& link, int channel, std::byte* slots);

  const Message* tryPeek() override { return tryPeekAhead(0); }
  void release() override;
  bool flushed() const override;
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  const Message* tryPeekAhead(uint64_t ahead) override;
  bool hasLandings() const override { return true; }
  bool tryLand(const Landing& landing) override;

  bool hasOwnSlots() const { return has_own_slots_; }

  // Where the message goes, or nullptr: it cannot come now (its slot is in use, or it has been here).
  std::byte* reserve(const FrameHeader& header);
  void arrived(uint64_t sequence);
  // What was reserved will not come, or will come again.
  void cancel(uint64_t sequence);
  ChannelState state() const;
  uint64_t released() const { return released_; }
  uint64_t creditSent() const { return credit_sent_; }
  void noteCreditSent(uint64_t credit);
  // At most one frame of this channel's credit waits to be written: true if there was none.
  bool claimCreditFrame() { return !std::exchange(credit_frame_, true); }
  void creditFrameSent() { credit_frame_ = false; }
  // Credits that the kernel has may be lost.
  void creditsLost() { credit_sent_ = 0; }
  // The region goes: what has come to it, all of it or a part, moves to its slots, and nothing comes there any more.
  // Whether anything did.
  bool withdraw(const Region& region);

 private:
  enum class SlotState : uint8_t { kFree, kArriving, kFull };
  struct Slot {
    SlotState state = SlotState::kFree;
    bool landed = false;  // or is about to: `data` is not in the slot
    uint32_t bytes = 0;
    uint64_t landing = 0;  // of the header
    Tag tag = 0;
    std::byte* data = nullptr;
  };
  struct Told {
    Landing landing;
    uint64_t first = 0;  // the number of its first message
  };
  std::byte* slotOf(uint64_t sequence) const;
  std::byte* landingOf(const FrameHeader& header) const;
  void useLanding(const Slot& slot);

  SocketLink& link_;
  int channel_;
  std::byte* slots_;
  bool has_own_slots_ = true;
  uint64_t released_ = 0;
  uint64_t credit_sent_ = 0;
  bool credit_frame_ = false;
  std::vector<Slot> state_;
  uint32_t landed_ = 0;     // slots whose message did, or is about to
  std::vector<Told> told_;  // a ring: landings in lent memory, and not used up by messages that were released
  uint64_t told_begin_ = 0;
  uint64_t told_end_ = 0;
  uint64_t landings_told_ = 0;  // of messages up to that number, in slots or not
  uint64_t landings_used_ = 0;  // messages released that have one, told or not
  Message message_;
};

}  // namespace horing::tcp
