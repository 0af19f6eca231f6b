#pragma once
// A plan: a schedule bound to connections and scratch memory. It has no user pointers and no sizes: the call passes them, so one
// plan serves every call of its collective and algorithm.
#include <cstdint>
#include <memory>
#include <vector>

#include "base/peer_waits.h"
#include "engine/host/driven.h"
#include "engine/host/fold.h"
#include "engine/host/send_end.h"
#include "schedule/link_slots.h"
#include "schedule/schedule.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"
#include "transport/shared_slots.h"
#include "transport/transport.h"

namespace horing {

// How the engine runs a plan; the same on every rank.
struct PlanSettings {
  int32_t window = 4;
  uint32_t slot_bytes = 65536;  // of every connection
  Simd simd = Simd::kPlain;
  // Outputs of at least this size are stored past the caches, except data that is read again. May differ among ranks.
  size_t stream_bytes = SIZE_MAX;
  // Operations that move at most this many bytes use all slots of the links (SharedSlotsSender::roam). May differ among ranks.
  size_t roam_bytes = 0;
  // Chunks of at least this size move without a copy, from and to lent memory. The same on all ranks.
  size_t in_place_bytes = kInPlaceBytes;
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

// The source of one operand, resolved.
struct BoundSource {
  Source::Kind kind;
  Receiver* receiver = nullptr;         // kRecv, kSignal
  LandingReceiver* landings = nullptr;  // of the receiver; null: it has none
  size_t landing_number = 0;            // of the receiver, among those of the lane
  ScratchQueue* queue = nullptr;        // kScratch
  int32_t peer = -1;                    // kRecv, kSignal: rank, for messages
  int32_t position = -1;                // kPeerIn
};

struct BoundSignal {
  SendEnd send;
  int32_t peer;  // rank, for messages
};

struct BoundStep {
  std::vector<BoundSource> sources;
  std::unique_ptr<bool[]> is_input;  // one per source, see FoldArguments
  bool completes = false;            // see Step
  ScratchQueue* keep_queue = nullptr;
  SendEnd send;
  int32_t send_peer = -1;  // rank, for messages
  std::vector<BoundSignal> signals;
};

// Gives the connections of this rank; positions are those of the schedule. A link has kLinkChannels channels, and the lanes that
// use one peer take them in turn: a lane's channel is the number of lower lanes that move data between the same two ranks in the
// same direction. Both ends count the same, and no algorithm needs a channel per lane.
// `peers_of`: sendPeers or recvPeers.
int channelOf(const Schedule& schedule, size_t lane, int32_t position,
              std::vector<int32_t> (*peers_of)(const Lane&));

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
  // The receivers of the lane that have landings, each once.
  const std::vector<LandingReceiver*>& landingReceivers(size_t lane) const {
    return landing_receivers_[lane];
  }
  int32_t largestSourceCount() const { return largest_source_count_; }
  bool readsPeers() const { return reads_peers_; }
  bool writesPeers() const { return writes_peers_; }
  // Everything sent will arrive without further help. Credits may not have been sent yet: a peer that needs them waits for this rank's
  // next operation.
  bool flushed() const;
  // Adds the ranks that flushed() waits for.
  void addUnflushed(PeerWaits& waits) const;
  // For everything that it sends from now on: SharedSlotsSender::roam().
  void roam(bool all);
  // For this rank's outputs at that position: whether its caches are far (SharedSlotsSender::readerIsFar). For plans that write
  // peers' memory.
  bool ownerIsFar(int32_t position) {
    SharedSlotsSender* const signals = signals_[static_cast<size_t>(position)];
    return signals && signals->readerIsFar();
  }
  // No peer's memory waits for a credit any more; otherwise call it again.
  bool settle();
  uint64_t memoryBytes() const;

 private:
  BoundStep bindStep(const Step& step, size_t lane, ConnectionSource& connections);

  Schedule schedule_;
  PlanSettings settings_;
  std::vector<std::unique_ptr<ScratchQueue>> queues_;
  std::vector<std::vector<BoundStep>> bound_;                     // [lane][step as written down]
  std::vector<std::vector<LandingReceiver*>> landing_receivers_;  // [lane]
  std::vector<Sender*> senders_;                                  // each once
  std::vector<int32_t> sender_ranks_;                             // the receiving rank of each sender
  std::vector<SharedSlotsSender*> shared_;   // of senders that have shared slots, each once
  std::vector<LentReceiver*> lent_;          // the same for receivers
  std::vector<SharedSlotsSender*> signals_;  // by position; null where no step sends one into shared slots
  int32_t largest_source_count_ = 1;
  bool reads_peers_ = false;
  bool writes_peers_ = false;
};

}  // namespace horing
