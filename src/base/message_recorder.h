#pragma once
// The latest messages of a communicator (sends, receives, puts, signals, waits for signals), kept in memory for error reports and timelines.
//
// Fixed size. Recording takes a few stores, no lock, no allocation and no reading of a clock, and never waits for a reader
// (record_entry.h).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/record_entry.h"
#include "base/types.h"

namespace horing {

// kGroup: all messages of a large group, in one record.
enum class MessageKind : uint8_t { kSend, kReceive, kPut, kSignal, kSignalWait, kGroup };
const char* messageKindName(MessageKind kind);  // "send", "recv"
// kStarted: some of its bytes have moved.
enum class MessageState : uint8_t { kEnqueued, kStarted, kComplete };
const char* messageStateName(MessageState state);  // "enqueued"

// One message. Times are of the communicator's clock: its latest reading before the event.
struct RecordedMessage {
  uint64_t sequence = 0;  // of the recorder
  uint64_t bytes = 0;
  // With has_tag: its tag. Else the number of the message among those of this rank to that peer, or from it: the n-th that one sends is the
  // n-th that the other receives. Of a message that a kernel carries: the number of the launch.
  uint64_t number = 0;
  int64_t enqueued_ns = 0;
  int64_t started_ns = 0, ended_ns = 0;  // 0: not yet
  int32_t peer = 0;                      // -1: any rank, not known yet. Of a group: how many messages it has
  MessageKind kind = MessageKind::kSend;
  DataType type = DataType::kUint8;
  bool has_tag = false;
  MessageState state = MessageState::kEnqueued;
};

// One thread at a time, except where marked.
class MessageRecorder {
 public:
  static constexpr size_t kUsualEntries = 256, kEntriesOfTimeline = 1 << 15;

  // kWaiting: those that have waited long, or whose call failed, as long as nobody reads the others: a record takes more than 5 % of the
  // time of the smallest messages inside a node.
  enum class Keeps : uint8_t { kAll, kWaiting };

  // `entries`: a power of 2, at most 2^30, as many as are kept. Their memory, 64 bytes each, is taken with the first message.
  explicit MessageRecorder(size_t entries = kUsualEntries, Keeps keeps = Keeps::kAll)
      : mask_(entries - 1), keeps_(keeps) {}

  bool keepsAll() const { return keeps_ == Keeps::kAll; }

  // The time of events from here on.
  void setNow(int64_t now_ns) { now_ns_ = now_ns; }
  // Whether each message of a group of so many gets a record, so that no group displaces most others.
  bool recordsEach(size_t messages) const { return keepsAll() && messages <= (mask_ + 1) / 8; }

  // The handle of that message, never 0. Messages that are 2^31 apart share one, long after the first is displaced.
  static uint32_t handleOf(uint64_t sequence) { return static_cast<uint32_t>(sequence) | 1u << 31; }

  // Records a message as enqueued now, or before, at its `enqueued_ns`, if that is not 0. Returns its handle.
  uint32_t begin(const RecordedMessage& record) {
    if (!entries_) [[unlikely]]
      entries_ = std::make_unique<Entry[]>(mask_ + 1);
    const uint64_t sequence = begun_.load(std::memory_order_relaxed);
    const int64_t enqueued_ns = record.enqueued_ns != 0 ? std::min(record.enqueued_ns, now_ns_) : now_ns_;
    at(sequence).write(std::array{sequence, record.bytes, record.number, static_cast<uint64_t>(enqueued_ns),
                                  packed(record), uint64_t{0}, uint64_t{0}});
    // release: pairs with the acquire in begun().
    begun_.store(sequence + 1, std::memory_order_release);
    return handleOf(sequence);
  }
  // Some bytes of the message have moved. `handle`: 0, or of a message whose record may be displaced: does nothing.
  void start(uint32_t handle) {
    Entry* const entry = find(handle);
    if (entry && stateOf(entry->own(4)) == MessageState::kEnqueued)
      entry->write<4>(
          std::array{withState(entry->own(4), MessageState::kStarted), static_cast<uint64_t>(now_ns_)});
  }
  // The message is complete. `handle`: as for start(). `peer`: its rank, which a receive from any rank learns.
  void end(uint32_t handle) {
    if (Entry* const entry = find(handle)) end(*entry, entry->own(4));
  }
  void end(uint32_t handle, int32_t peer) {
    if (Entry* const entry = find(handle)) end(*entry, withPeer(entry->own(4), peer));
  }
  // Whether the message has a record that was not displaced. `handle`: may be 0.
  bool has(uint32_t handle) const { return find(handle) != nullptr; }
  // When it was enqueued; 0: as far as has() tells, it has no record.
  int64_t enqueuedNs(uint32_t handle) const {
    const Entry* const entry = find(handle);
    return entry ? static_cast<int64_t>(entry->own(3)) : 0;
  }

  // Any thread. The number of messages recorded.
  uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  // Any thread. Nothing: not recorded, or displaced.
  std::optional<RecordedMessage> record(uint64_t sequence) const;
  // Any thread. The latest of those that are kept, oldest first.
  std::vector<RecordedMessage> last(size_t most = SIZE_MAX) const;
  // Any thread. The latest `most` of those that are kept, behind the oldest `most` before them that are not complete.
  std::vector<RecordedMessage> lastAndOpen(size_t most) const;

 private:
  // sequence, bytes, number, begin, the rest, start, end.
  using Entry = RecordEntry<7>;
  static_assert(sizeof(Entry) == 64);

  static uint64_t packed(const RecordedMessage& r) {
    return static_cast<uint64_t>(r.state) | static_cast<uint64_t>(r.kind) << 8 |
           static_cast<uint64_t>(r.type) << 16 | static_cast<uint64_t>(r.has_tag) << 24 |
           static_cast<uint64_t>(static_cast<uint32_t>(r.peer)) << 32;
  }
  static MessageState stateOf(uint64_t word) { return static_cast<MessageState>(word & 0xff); }
  static uint64_t withState(uint64_t word, MessageState state) {
    return (word & ~uint64_t{0xff}) | static_cast<uint64_t>(state);
  }
  static uint64_t withPeer(uint64_t word, int32_t peer) {
    return (word & 0xffffffff) | static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 32;
  }
  void end(Entry& entry, uint64_t word) const {
    const auto now = static_cast<uint64_t>(now_ns_);
    const uint64_t started = stateOf(word) == MessageState::kEnqueued ? now : entry.own(5);
    entry.write<4>(std::array{withState(word, MessageState::kComplete), started, now});
  }
  // Adds those from `first` to `end` - 1 that are kept.
  void addKept(std::vector<RecordedMessage>& records, uint64_t first, uint64_t end) const;
  Entry& at(uint64_t sequence) const { return entries_[sequence & mask_]; }
  Entry* find(uint32_t handle) const {
    if (handle == 0) return nullptr;
    Entry& entry = at(handle);
    return handleOf(entry.own(0)) == handle ? &entry : nullptr;
  }

  std::unique_ptr<Entry[]> entries_;  // read by other threads once begun_ is not 0
  uint64_t mask_;
  Keeps keeps_;
  int64_t now_ns_ = 0;
  std::atomic<uint64_t> begun_{0};
};

}  // namespace horing
