#pragma once
// The two ends of a connection over RDMA. They only do the bookkeeping; VerbsLink moves the bytes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/callers_slots.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"
#include "transport/sent_messages.h"
#include "transport/verbs/wire.h"

namespace horing::verbs {

class VerbsLink;

// The slots of one queue.
struct QueueShape {
  uint32_t slots;
  uint32_t slot_bytes;
  // Bytes of a slot, including its header.
  uint32_t stride() const { return kSlotDataOffset + slot_bytes; }
  // Bytes of all slots, without headers.
  size_t dataBytes() const { return size_t{slots} * slot_bytes; }
  // The offset of a message's slot in slots without headers.
  size_t dataOffset(uint64_t sequence) const { return sequence % slots * slot_bytes; }
};

class VerbsSender final : public Sender, public LandingSender, public LentSender, public CallersSlotsSender {
 public:
  // `slots`: their memory.
  VerbsSender(VerbsLink& link, uint32_t channel, const QueueShape& shape, std::byte* slots);

  std::byte* tryAcquire(uint32_t bytes) override;
  std::byte* tryAcquireLanding() override;
  bool awaitsLandings() const override { return true; }
  void post(uint32_t bytes, Tag tag) override;
  // An adapter has everything, and delivers it without this rank's help. Messages in a caller's memory may have to be sent again by
  // another path until the peer reports their arrival.
  bool flushed() const override { return sent_.allSent() && sent_.released() >= lent_before_; }
  bool sendsFrom(const std::byte* memory, uint32_t bytes) const override;
  void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) override;
  // Then waits for the peer's announcement of its slots, even if it has none, so that the peer need not copy any message.
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  uint64_t acknowledged() const override { return sent_.released(); }

  LandingSender* landings() override { return this; }
  LentSender* lent() override { return this; }
  CallersSlotsSender* callersSlots() override { return this; }
  SharedSlotsSender* sharedSlots() override { return nullptr; }

  uint64_t posted() const { return sent_.posted(); }
  uint64_t credited() const { return sent_.released(); }
  // The peer has released all messages before number `credit`; lower ones than before are stale. False: it cannot have.
  bool takeCredit(uint64_t credit);
  // The message has been given to a path.
  void sent(uint64_t sequence, uint16_t path);
  uint32_t bytesOf(uint64_t sequence) const { return sent_.at(sequence).bytes; }
  // Null: it is in its slot.
  const std::byte* callersMemoryOf(uint64_t sequence) const { return sent_.at(sequence).memory; }
  // Where the data goes over there.
  struct Target {
    uint64_t address = 0;  // 0: the slot
    std::array<uint32_t, kMaxPaths> keys{};
  };
  const Target& targetOf(uint64_t sequence) const { return sent_.at(sequence).target; }
  std::byte* headerOf(uint64_t sequence) const;
  // An announcement has arrived, perhaps for messages that did not wait for it.
  void announcementArrived();
  // A path is lost, and the peer has reported what it has: queues the rest for retransmission. False: the report is invalid.
  bool pathGone(uint16_t path, const ChannelState& theirs);

 private:
  struct Sent {
    const std::byte* memory = nullptr;  // a caller's memory; null: in the slot
    uint32_t bytes = 0;
    uint16_t way = kNoWay;  // the path that it was given to
    bool is_sent = false;
    Target target;
  };
  void enqueue(Sent message, Tag tag, uint32_t flags);
  void takeSlots(const Message& told);
  bool readAnnouncement(LandingAnnouncement& announcement);
  void takeLandings(const LandingAnnouncement& announcement, uint32_t messages);
  Target nextTarget(uint32_t bytes);

  VerbsLink& link_;
  uint32_t channel_;
  QueueShape shape_;
  std::byte* slots_;
  uint64_t lent_before_ = 0;  // all messages in callers' memory have lower numbers
  Acquired acquired_ = Acquired::kNothing;
  uint32_t landings_taken_ = 0;         // of the oldest announcement of them
  uint32_t announcements_overdue_ = 0;  // messages that went into slots before their announcement arrived
  std::byte* callers_slots_ = nullptr;  // null: there are none
  bool needs_their_slots_ = false;      // to be known before anything is sent
  std::optional<Target> their_slots_;   // the first of them; nothing: not reported yet
  SentMessages<Sent> sent_;
};

class VerbsReceiver final : public Receiver,
                            public LandingReceiver,
                            public LentReceiver,
                            public CallersSlotsReceiver {
 public:
  VerbsReceiver(VerbsLink& link, uint32_t channel, const QueueShape& shape, std::byte* slots);

  const Message* tryPeek() override { return tryPeekAhead(0); }
  bool hasMessage() const override { return state_[released_ % state_.size()].full; }
  const Message* tryPeekAhead(uint64_t ahead) override;
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  void release() override;
  bool flushed() const override;
  bool settle() override;
  bool awaitsLandings() const override { return true; }
  bool tryLand(const Landing& landing) override;

  LandingReceiver* landings() override { return this; }
  LentReceiver* lent() override { return this; }
  CallersSlotsReceiver* callersSlots() override { return this; }

  uint32_t slots() const { return shape_.slots; }

  // Message `sequence` is complete; `bytes` of it are in its slot, including the header. False: invalid number or size.
  bool arrived(uint64_t sequence, uint32_t bytes);
  const std::byte* headerOf(uint64_t sequence) const;
  ChannelState state() const;
  uint64_t released() const { return released_; }
  uint64_t creditSent() const { return credit_sent_; }
  void noteCreditSent(uint64_t credit) { credit_sent_ = std::max(credit_sent_, credit); }

 private:
  struct Slot {
    bool full = false;
    uint32_t flags = 0;  // of the header
    uint32_t bytes = 0;
    Tag tag = 0;
  };

  const std::byte* placeOf(uint64_t sequence) const;
  const std::byte* landingOf(const Slot& slot) const;

  VerbsLink& link_;
  uint32_t channel_;
  QueueShape shape_;
  std::byte* slots_;
  uint64_t released_ = 0;
  uint64_t credit_sent_ = 0;
  uint64_t awaited_ = 0;  // the credit that the sender needs to return its caller's memory
  std::vector<Slot> state_;
  std::vector<Landing> landings_;  // a ring: announced, and not yet consumed by released messages
  uint64_t landings_begin_ = 0;
  uint64_t landings_end_ = 0;
  uint32_t landings_used_ = 0;                // messages of the first landing used
  const std::byte* callers_slots_ = nullptr;  // null: none
  bool told_slots_ = false;                   // announced the slots, or that there are none
  Message message_;
};

}  // namespace horing::verbs
