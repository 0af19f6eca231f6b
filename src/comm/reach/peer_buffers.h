#pragma once
// The addresses of the inputs and outputs of all ranks, for schedules that read and write them in place, and whether all ranks can access
// them. Inputs of calls without a reduction may be in any memory, if the kernel lets ranks read it (process_memory.h) and that is faster
// (copy_trial.h).
//
// For each call the ranks all-gather offers, which say where their buffers are. The decision depends only on these offers, and on a second
// round in which every rank says whether it could map new memory. So all ranks come to the same decision without further messages.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/reach/copy_trial.h"
#include "comm/reach/process_memory.h"
#include "engine/host/operation.h"
#include "topology/group_map.h"
#include "transport/memory/segment_list.h"

namespace horing {

inline constexpr size_t kMaxKnownSegments = 1024;  // of all ranks of a communicator

// The location of one buffer of one rank.
struct BufferOffer {
  SegmentName segment;   // id 0: in memory that peers cannot map
  uint64_t offset = 0;   // bytes into the segment
  uint64_t address = 0;  // in the process; 0: not readable by peers
};

// One rank's offer before a call. Untrusted until checked.
struct RankOffer {
  static constexpr size_t kKinds = 2;
  std::array<BufferOffer, kKinds> buffers;  // input, output
  MemoryProof proof;
  CopyTimes times;  // of earlier calls of this size
};
static_assert(sizeof(RankOffer) == 112);

// The buffers of all ranks by position, valid until the next offer; null if some rank cannot access some buffer.
struct ReachableBuffers {
  const std::byte* const* inputs = nullptr;
  std::byte* const* outputs = nullptr;
  PeerReader* reader = nullptr;  // reads the inputs; null: they are mapped
};

// One thread at a time.
class PeerBuffers {
 public:
  enum class Memory : uint8_t {
    kOfProcess,   // all ranks are threads of one process: any memory will do
    kOfSegments,  // processes of one node
  };
  // When to read memory outside segments through the kernel.
  enum class SingleCopy : uint8_t { kNever, kWhereFaster, kAlways };
  // `segments` and `map` must outlive it. `processes`: the process of each rank; memory of any other process is refused.
  PeerBuffers(const SegmentList& segments, const GroupMap& map, int rank, Memory memory,
              std::vector<int64_t> processes, SingleCopy single_copy = SingleCopy::kNever);

  // Whether the ranks exchange offers for this call; after repeated refusals they do so only now and then. The same result on every rank;
  // called once for each call. `only_moves`: the call reduces nothing, and all buffers are in host memory.
  bool asks(bool only_moves);
  // The all-gather of the offers for a call with these buffers; empty: not to be accessed. Sizes are the same on every rank.
  Call offer(std::span<const std::byte> input, std::span<std::byte> output, bool only_moves);
  // After the offers: maps new segments; returns whether a second round is needed.
  bool needsConfirmation();
  // The all-gather of the second round.
  Call confirmation();
  // The result of the rounds. Errors: a rank offers memory that it has freed.
  Result<ReachableBuffers> agreed();
  // After the call, for asks() and the choice of the next call's way. `served`: the call used peer buffers, the same on every rank. The
  // times of this rank to ask and to run the call count for calls that only move data.
  void learn(bool served, int64_t asked_ns, int64_t carried_ns);

 private:
  // A segment that some rank has offered before; the same list on every rank, except the mappings.
  struct Known {
    SegmentName name;
    bool is_reachable = false;  // by every rank that tried
    uint64_t used = 0;          // the latest exchange that named it
    std::optional<PeerSegment> mapped;
  };
  static constexpr size_t kInput = 0, kOutput = 1, kKinds = RankOffer::kKinds;
  // How often the ranks still ask.
  struct Backoff {
    uint32_t refusals = 0;  // since a call was served
    uint32_t skipped = 0;
  };
  BufferOffer place(std::span<const std::byte> buffer) const;
  bool areSound(size_t kind) const;
  bool couldBeRead() const;
  bool wantsReading() const;
  bool readsAll() const;
  CopyTimes slowest() const;
  bool allConfirmed(std::byte what) const;
  // Finds all buffers of a kind; `are_read`: inputs are read through the kernel.
  Status findAll(size_t kind, bool are_read);
  Known* find(const SegmentName& name);
  void remember(const SegmentName& name);
  void forgetOldest();
  void dropFreed();

  const SegmentList& segments_;
  const GroupMap& map_;
  int rank_;
  Memory memory_;
  ProcessMemory process_memory_;
  SingleCopy single_copy_;
  std::optional<bool> may_read_;  // each rank can read all others; set once they have tried
  bool wants_reading_ = false;    // in this exchange
  bool tries_reading_ = false;    // for the first time
  CopyTrial trial_;
  std::optional<CopyWay> way_;  // the choice for this call, if both ways are possible
  int64_t least_asked_ns_ = INT64_MAX;
  uint64_t questions_ = 0;
  bool only_moves_ = false;
  std::array<Backoff, 2> backoffs_;  // indexed by only_moves
  std::array<size_t, kKinds> bytes_{};
  std::array<bool, kKinds> is_shared_{};
  RankOffer own_;
  std::vector<RankOffer> offers_;  // by rank
  // Bits of a confirmation.
  static constexpr std::byte kMapped{1}, kRead{2};
  std::byte confirmed_{};
  std::vector<std::byte> confirmations_;  // by rank
  std::vector<SegmentName> fresh_;        // new in this exchange
  std::vector<Known> known_;
  std::array<std::vector<std::byte*>, kKinds> found_;  // by position
};

}  // namespace horing
