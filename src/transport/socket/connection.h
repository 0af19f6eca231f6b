#pragma once
// The two ends of a connection over streams. Both only keep account; SocketLink moves the bytes, except those that leave lent
// memory.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "transport/callers_slots.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"
#include "transport/sent_messages.h"
#include "transport/socket/wire.h"
#include "transport/transport.h"

namespace horing::tcp {

class SocketLink;

class SocketSender final : public Sender, public LandingSender, public LentSender, public CallersSlotsSender {
 public:
  SocketSender(SocketLink& link, int channel, std::byte* slots);

  std::byte* tryAcquire(uint32_t bytes) override;
  std::byte* tryAcquireLanding() override;
  void post(uint32_t bytes, Tag tag) override;
  bool flushed() const override { return sent_.allSent(); }
  bool awaitsLandings() const override { return false; }
  bool sendsFrom(const std::byte* memory, uint32_t bytes) const override;
  void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) override;
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  uint64_t acknowledged() const override { return sent_.released(); }

  LandingSender* landings() override { return this; }
  LentSender* lent() override { return this; }
  CallersSlotsSender* callersSlots() override { return this; }
  SharedSlotsSender* sharedSlots() override { return nullptr; }

  bool hasOwnSlots() const { return has_own_slots_; }
  uint64_t posted() const { return sent_.posted(); }
  // The peer has released all messages before number `credit`; a lower number than before is stale. False: the number is
  // impossible.
  bool takeCredit(uint64_t credit);
  // The kernel has taken all of this message.
  void frameSent(uint64_t sequence) { sent_.noteSent(sequence); }

  // Messages sent by this stream without a credit may have been lost.
  void streamBroke(size_t stream) { sent_.wayBroke(stream); }
  // The stream is open (again), and the peer has reported its state: queues the rest. False: the state is impossible.
  bool streamBegan(size_t stream, const ChannelState& theirs);
  // The stream is given up, and the peer has reported its state: other streams take the rest. False: the state is impossible.
  bool streamGivenUp(size_t stream, const ChannelState& theirs);
  // The region is taken back: messages without a credit, which may have to be sent again, move from it to their slots. Whether
  // there were any.
  bool withdraw(const Region& region);

 private:
  SocketLink& link_;
  int channel_;
  std::byte* slots_;
  bool has_own_slots_ = true;
  uint64_t lent_before_ = 0;  // messages below this number may be in callers' memory
  uint64_t landings_ = 0;     // messages with a landing so far
  Acquired acquired_ = Acquired::kNothing;
  FrameHeader headerOf(uint64_t sequence) const;
  std::byte* slotOf(uint64_t sequence) const;
  const std::byte* payloadOf(uint64_t sequence) const;

  struct Sent {
    Tag tag = 0;
    const std::byte* memory = nullptr;  // of a caller; null: in the slot
    uint64_t landing = 0;               // its number in the header
    uint32_t bytes = 0;
    uint16_t way = kNoWay;  // its stream
    bool is_sent = false;   // the kernel has all of it, or the peer has
  };
  void enqueue(Sent message);
  SentMessages<Sent> sent_;
};

class SocketReceiver final : public Receiver, public LandingReceiver, public CallersSlotsReceiver {
 public:
  SocketReceiver(SocketLink& link, int channel, std::byte* slots);

  const Message* tryPeek() override { return tryPeekAhead(0); }
  bool hasMessage() const override;
  void release() override;
  bool flushed() const override;
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  const Message* tryPeekAhead(uint64_t ahead) override;
  bool awaitsLandings() const override { return false; }
  bool tryLand(const Landing& landing) override;

  LandingReceiver* landings() override { return this; }
  // Never makes the caller wait: a message that may have to be sent again is copied when its memory is taken back.
  LentReceiver* lent() override { return nullptr; }
  CallersSlotsReceiver* callersSlots() override { return this; }

  bool hasOwnSlots() const { return has_own_slots_; }

  // Where the message goes, or nullptr: it cannot arrive now (its slot is in use, or it arrived before).
  std::byte* reserve(const FrameHeader& header);
  void arrived(uint64_t sequence);
  // A message for which a place was reserved will not arrive, or will arrive again.
  void cancel(uint64_t sequence);
  ChannelState state() const;
  uint64_t released() const { return released_; }
  uint64_t creditSent() const { return credit_sent_; }
  void noteCreditSent(uint64_t credit);
  // At most one credit frame of this channel is queued: true if none was.
  bool claimCreditFrame() { return !std::exchange(credit_frame_, true); }
  void creditFrameSent() { credit_frame_ = false; }
  // Credits that the kernel has taken may be lost.
  void creditsLost() { credit_sent_ = 0; }
  // The region is taken back: messages that have arrived in it, wholly or in part, move to its slots, and later ones go to slots.
  // Whether there were any.
  bool withdraw(const Region& region);

 private:
  enum class SlotState : uint8_t { kFree, kArriving, kFull };
  struct Slot {
    SlotState state = SlotState::kFree;
    bool landed = false;  // it landed, or is about to: `data` is not in the slot
    uint32_t bytes = 0;
    uint64_t landing = 0;  // its number in the header
    Tag tag = 0;
    std::byte* data = nullptr;
  };
  struct Told {
    Landing landing;
    uint64_t first = 0;  // the number of the first message that lands there
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
  uint32_t landed_ = 0;     // slots whose message landed, or is about to
  std::vector<Told> told_;  // a ring: landings in lent memory that released messages have not used up
  uint64_t told_begin_ = 0;
  uint64_t told_end_ = 0;
  uint64_t landings_told_ = 0;  // number of landings told, in slots or not
  uint64_t landings_used_ = 0;  // released messages with a landing, told or not
  Message message_;
};

}  // namespace horing::tcp
