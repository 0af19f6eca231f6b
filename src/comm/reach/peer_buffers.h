#pragma once
// Where the inputs and outputs of all ranks lie, for schedules that read and write them in place; and whether all ranks can.
// Inputs that are only moved may lie in any memory where the kernel lets ranks read it (process_memory.h) and that is the
// faster way (copy_trial.h).
//
// For each call the ranks tell each other where their buffers lie (an all-gather of offers). Everything that decides comes from
// these offers, or from a second round in which every rank says whether it could map memory that nobody had seen before. So
// all ranks decide alike, without asking more than that.
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

// Where one buffer of one rank lies.
struct BufferOffer {
  SegmentName segment;   // id 0: in memory that others cannot map
  uint64_t offset = 0;   // bytes into the segment
  uint64_t address = 0;  // in the process; 0: in none that others may read
};

// What one rank says before a call. From a peer it is hostile until looked at.
struct RankOffer {
  static constexpr size_t kKinds = 2;
  std::array<BufferOffer, kKinds> buffers;  // input, output
  MemoryProof proof;
  CopyTimes times;  // of calls of that size before
};
static_assert(sizeof(RankOffer) == 112);

// The buffers of all ranks by position, valid until the next offer; null where not everybody can reach everybody's.
struct ReachableBuffers {
  const std::byte* const* inputs = nullptr;
  std::byte* const* outputs = nullptr;
  PeerReader* reader = nullptr;  // by which the inputs are read; null: they are mapped
};

// One thread at a time.
class PeerBuffers {
 public:
  enum class Memory : uint8_t {
    kOfProcess,   // all ranks are threads of one process: any memory will do
    kOfSegments,  // processes of one node
  };
  // Of memory that lies in no segment.
  enum class SingleCopy : uint8_t { kNever, kWhereFaster, kAlways };
  // `segments` and `map` must outlive it. `processes`: of each rank, by its number; memory of any other is refused.
  PeerBuffers(const SegmentList& segments, const GroupMap& map, int rank, Memory memory,
              std::vector<int64_t> processes, SingleCopy single_copy = SingleCopy::kNever);

  // Whether the ranks ask each other this time; they stop asking often where the answer was always no. The same answer on
  // every rank, once for each call. `only_moves`: the call folds nothing, and all is memory of the host.
  bool asks(bool only_moves);
  // The all-gather of the offers, for a call with buffers of so many bytes, 0 where none is to be reached. The sizes are the same
  // on every rank.
  Call offer(std::span<const std::byte> input, std::span<std::byte> output, bool only_moves);
  // After that: whether a second round is due. Maps what is new.
  bool needsConfirmation();
  // The all-gather of that round.
  Call confirmation();
  // After it. Errors: a rank offers memory that it has freed.
  Result<ReachableBuffers> agreed();
  // After the call: whether it could be served by that, the same on every rank, and how long it took this rank to ask and then
  // to carry it out, which counts for calls that only move. What asks() goes by, and which way the next such call takes.
  void learn(bool served, int64_t asked_ns, int64_t carried_ns);

 private:
  // A segment that was offered before, by whichever rank; the same list on every rank, but for the mappings.
  struct Known {
    SegmentName name;
    bool is_reachable = false;  // by every rank that wanted to
    uint64_t used = 0;          // the last question in which it came up
    std::optional<PeerSegment> mapped;
  };
  static constexpr size_t kInput = 0, kOutput = 1, kKinds = RankOffer::kKinds;
  // Of how often the ranks still ask.
  struct Patience {
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
  // Of inputs that are read, where they lie in their processes.
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
  std::optional<bool> may_read_;  // each rank that of all others; once they have tried
  bool wants_reading_ = false;    // in this question
  bool tries_reading_ = false;    // for the first time
  CopyTrial trial_;
  std::optional<CopyWay> way_;  // of this question, of what could go either
  int64_t least_asked_ns_ = INT64_MAX;
  uint64_t questions_ = 0;
  bool only_moves_ = false;
  std::array<Patience, 2> patience_;  // by whether calls only move
  std::array<size_t, kKinds> bytes_{};
  std::array<bool, kKinds> is_shared_{};
  RankOffer own_;
  std::vector<RankOffer> offers_;  // by rank
  // Bits of a confirmation.
  static constexpr std::byte kMapped{1}, kRead{2};
  std::byte confirmed_{};
  std::vector<std::byte> confirmations_;  // by rank
  std::vector<SegmentName> fresh_;        // of this question
  std::vector<Known> known_;
  std::array<std::vector<std::byte*>, kKinds> found_;  // by position
};

}  // namespace horing
