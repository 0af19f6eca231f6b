#pragma once
// A plan: a schedule bound to live connections and scratch memory. Still no user pointers and no sizes: those
// come with the call, so one plan serves every call of its collective and algorithm.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/host/fold.h"
#include "schedule/schedule.h"
#include "transport/transport.h"

namespace horing {

// How the engine runs a plan; the same on every rank.
struct PlanSettings {
  int32_t window = 4;
  uint32_t slot_bytes = 65536;  // of every connection
  Simd simd = Simd::kPlain;
  // Outputs of so many bytes and more are stored past the caches, but for what is read again. This rank's own affair.
  size_t stream_bytes = SIZE_MAX;
  // Operations that move up to so many bytes use all the room of links (Sender::roam). This rank's own affair.
  size_t roam_bytes = 0;
};

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;
inline AlignedBytes alignedBytes(size_t bytes) {
  return AlignedBytes(new (std::align_val_t{64}) std::byte[bytes]);
}

// A queue of window + 1 slices between two lanes of one rank.
class ScratchQueue {
 public:
  ScratchQueue(int32_t slices, uint32_t slice_bytes)
      : slices_(slices), slice_bytes_(slice_bytes), memory_(alignedBytes(bytes())) {}
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == slices_; }
  std::byte* front() const { return at(head_); }
  std::byte* back() const { return at(tail_); }
  void push() { ++tail_; }
  void pop() { ++head_; }
  size_t bytes() const { return static_cast<size_t>(slices_) * slice_bytes_; }

 private:
  std::byte* at(int64_t index) const {
    return memory_.get() + static_cast<size_t>(index % slices_) * slice_bytes_;
  }

  int64_t slices_;
  uint32_t slice_bytes_;
  int64_t head_ = 0;
  int64_t tail_ = 0;
  AlignedBytes memory_;
};

// Where one operand comes from, resolved.
struct BoundSource {
  Source::Kind kind;
  Receiver* receiver = nullptr;   // kRecv, kSignal
  ScratchQueue* queue = nullptr;  // kScratch
  int32_t peer = -1;              // kRecv, kSignal: rank, for messages
  int32_t position = -1;          // kPeerIn
};

struct BoundStep {
  std::vector<BoundSource> sources;
  std::unique_ptr<bool[]> is_input;  // one per source, see FoldArguments
  ScratchQueue* keep_queue = nullptr;
  bool keeps_in_every = false;
  Sender* sender = nullptr;
  int32_t send_peer = -1;  // rank, for messages
  std::vector<Sender*> signals;
};

// Gives the connections of this rank; positions are those of the schedule. A link has kLinkChannels channels, and the
// lanes that use one peer take them in turn: lane l has the channel whose number is how many lower lanes move data
// between the same two ranks in the same direction. Both ends count the same, and no algorithm needs a channel per lane.
inline constexpr int kLinkChannels = 2;
// `peersOf`: sendPeers or recvPeers.
int channelOf(const Schedule& schedule, size_t lane, int32_t position,
              std::vector<int32_t> (*peersOf)(const Lane&));

class ConnectionSource {
 public:
  virtual ~ConnectionSource() = default;
  virtual Sender& sender(int32_t position, int channel) = 0;
  virtual Receiver& receiver(int32_t position, int channel) = 0;
  virtual int32_t rankOf(int32_t position) const = 0;
};

// A resource: the connections must outlive it.
class Plan {
 public:
  Plan(Schedule schedule, const PlanSettings& settings, ConnectionSource& connections);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Schedule& schedule() const { return schedule_; }
  const PlanSettings& settings() const { return settings_; }
  // By StepCursor::written().
  const std::vector<BoundStep>& boundSteps(size_t lane) const { return bound_[lane]; }
  int32_t largestSourceCount() const { return largest_source_count_; }
  bool readsPeers() const { return reads_peers_; }
  bool writesPeers() const { return writes_peers_; }
  // Everything that was sent will arrive. Credits may be owed still: who needs them needs what this rank does next.
  bool flushed() const;
  // Of all that it sends from now on: Sender::roam().
  void roam(bool far);
  // Of this rank's outputs at that position: whether its caches are far (Sender::readerIsFar). Of plans that write peers' memory.
  bool ownerIsFar(int32_t position) {
    Sender* const signals = signals_[static_cast<size_t>(position)];
    return signals && signals->readerIsFar();
  }
  // No peer's memory waits for a credit any more; else to be called again.
  bool settle();
  uint64_t memoryBytes() const;

 private:
  BoundStep bindStep(const Step& step, size_t lane, ConnectionSource& connections);

  Schedule schedule_;
  PlanSettings settings_;
  std::vector<std::unique_ptr<ScratchQueue>> queues_;
  std::vector<std::vector<BoundStep>> bound_;  // [lane][step as written down]
  std::vector<Sender*> senders_;               // each once
  std::vector<Receiver*> receivers_;           // each once
  std::vector<Sender*> signals_;               // by position; null where no step sends one
  int32_t largest_source_count_ = 1;
  bool reads_peers_ = false;
  bool writes_peers_ = false;
};

}  // namespace horing
