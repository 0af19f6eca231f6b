#pragma once
// The two ends of a connection over RDMA. Both only count and mark; VerbsLink has the bytes moved.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/transport.h"
#include "transport/verbs/wire.h"

namespace horing::verbs {

class VerbsLink;

inline constexpr uint16_t kNoPath = UINT16_MAX;

// The slots of one queue.
struct QueueShape {
  uint32_t slots;
  uint32_t slot_bytes;
  // Bytes of one, header and all.
  uint32_t stride() const { return kSlotDataOffset + slot_bytes; }
  // Of all, but for headers.
  size_t dataBytes() const { return size_t{slots} * slot_bytes; }
  // Where the slot of a message begins in slots without headers.
  size_t dataOffset(uint64_t sequence) const { return sequence % slots * slot_bytes; }
};

class VerbsSender final : public Sender {
 public:
  // `slots`: their memory.
  VerbsSender(VerbsLink& link, uint32_t channel, const QueueShape& shape, std::byte* slots);

  std::byte* tryAcquire() override;
  std::byte* tryAcquireLanding() override;
  bool awaitsLandings() const override { return true; }
  void post(uint32_t bytes, Tag tag) override;
  // An adapter has everything, and needs nobody's help to deliver it. What lies in a caller's memory may have to be sent again by
  // another path until the peer says that it has it.
  bool flushed() const override { return unsent_ == 0 && credited_ >= lent_before_; }
  bool sendsFrom(const std::byte* memory, uint32_t bytes) const override;
  void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) override;
  // Waits then until the peer has told of its own, even where these are none: so no message has to be copied there.
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  uint64_t acknowledged() const override { return credited_; }

  uint64_t posted() const { return posted_; }
  uint64_t credited() const { return credited_; }
  // The peer has released all messages before number `credit`; lower ones than before are stale. False: it cannot have.
  bool takeCredit(uint64_t credit);
  // The message has been given to a path.
  void sent(uint64_t sequence, uint16_t path);
  uint32_t bytesOf(uint64_t sequence) const { return at(sequence).bytes; }
  // Null: it lies in its slot.
  const std::byte* callersMemoryOf(uint64_t sequence) const { return at(sequence).memory; }
  // Where the data goes over there.
  struct Target {
    uint64_t address = 0;  // 0: into the slot
    std::array<uint32_t, kMaxPaths> keys{};
  };
  const Target& targetOf(uint64_t sequence) const { return at(sequence).target; }
  std::byte* headerOf(uint64_t sequence) const;
  // A word about landings has come, perhaps of messages that did not wait for it.
  void wordCame();
  // A path is gone, and the peer says what it has: queues the rest again. False: it cannot have that.
  bool pathGone(uint16_t path, const ChannelState& theirs);

 private:
  struct Sent {
    const std::byte* memory = nullptr;  // of a caller; null: in the slot
    uint32_t bytes = 0;
    uint16_t path = kNoPath;
    Target target;
  };
  void enqueue(Sent message, Tag tag, uint32_t flags);
  void takeSlots(const Message& told);
  bool readWord(LandingWord& word);
  void takeLandings(const LandingWord& word, uint32_t messages);
  Target nextTarget(uint32_t bytes);
  Sent& at(uint64_t sequence) { return sent_[sequence % sent_.size()]; }
  const Sent& at(uint64_t sequence) const { return sent_[sequence % sent_.size()]; }

  VerbsLink& link_;
  uint32_t channel_;
  QueueShape shape_;
  std::byte* slots_;
  uint64_t posted_ = 0;
  uint64_t credited_ = 0;
  uint64_t unsent_ = 0;
  uint64_t lent_before_ = 0;  // all messages in callers' memory have lower numbers
  bool acquired_ = false;
  bool has_landing_ = false;            // what was acquired
  uint32_t landings_taken_ = 0;         // of the oldest word about them
  uint32_t words_overdue_ = 0;          // messages that went into slots before the word about them came
  std::byte* callers_slots_ = nullptr;  // null: there are none
  bool needs_their_slots_ = false;      // to be known before anything is sent
  std::optional<Target> their_slots_;   // the first of them; nothing: it has not told
  std::vector<Sent> sent_;
};

class VerbsReceiver final : public Receiver {
 public:
  VerbsReceiver(VerbsLink& link, uint32_t channel, const QueueShape& shape, std::byte* slots);

  const Message* tryPeek() override { return tryPeekAhead(0); }
  const Message* tryPeekAhead(uint64_t ahead) override;
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  void release() override;
  bool flushed() const override;
  bool settle() override;
  bool awaitsLandings() const override { return true; }
  bool tryLand(const Landing& landing) override;

  uint32_t slots() const { return shape_.slots; }

  // Message `sequence` is complete; `bytes` of it are in its slot, header and all. False: it cannot have come now, or not so.
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
  uint64_t awaited_ = 0;  // the credit that the sender waits for before its caller has its memory back
  std::vector<Slot> state_;
  std::vector<Landing> landings_;  // a ring: told, and not used up by messages that were released
  uint64_t landings_begin_ = 0;
  uint64_t landings_end_ = 0;
  uint32_t landings_used_ = 0;                // of the first of them
  const std::byte* callers_slots_ = nullptr;  // null: there are none
  bool told_slots_ = false;                   // of these, or that there are none
  Message message_;
};

}  // namespace horing::verbs
