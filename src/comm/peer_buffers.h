#pragma once
// Where the inputs and outputs of all ranks lie, for schedules that read and write them in place; and whether all ranks can.
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

#include "engine/host/operation.h"
#include "topology/group_map.h"
#include "transport/memory/segment_list.h"

namespace horing {

inline constexpr size_t kMaxKnownSegments = 1024;  // of all ranks of a communicator

// Where one buffer of one rank lies. From a peer it is hostile until looked at.
struct BufferOffer {
  SegmentName segment;   // id 0: in memory that others cannot map
  uint64_t offset = 0;   // bytes into the segment
  uint64_t address = 0;  // in the process, where all ranks live in one
};
static_assert(sizeof(BufferOffer) == 40);

// The buffers of all ranks by position, valid until the next offer; null where not everybody can reach everybody's.
struct ReachableBuffers {
  const std::byte* const* inputs = nullptr;
  std::byte* const* outputs = nullptr;
};

// One thread at a time.
class PeerBuffers {
 public:
  enum class Memory : uint8_t {
    kOfProcess,   // all ranks are threads of one process: any memory will do
    kOfSegments,  // processes of one node
  };
  // `segments` and `map` must outlive it. `processes`: of each rank, by its number; memory of any other is refused.
  PeerBuffers(const SegmentList& segments, const GroupMap& map, int rank, Memory memory,
              std::vector<int64_t> processes);

  // Whether the ranks ask each other this time; they stop asking often where the answer was always no. The same answer on
  // every rank, once for each call.
  bool asks();
  // The all-gather of the offers, for a call with buffers of so many bytes, 0 where none is to be reached. The sizes are the same
  // on every rank.
  Call offer(std::span<const std::byte> input, std::span<std::byte> output);
  // After that: whether a second round is due. Maps what is new.
  bool needsConfirmation();
  // The all-gather of that round.
  Call confirmation();
  // After it. Errors: a rank offers memory that it has freed.
  Result<ReachableBuffers> agreed();
  // Whether the call could be served by that: what asks() goes by. The same on every rank.
  void learn(bool served);

 private:
  // A segment that was offered before, by whichever rank; the same list on every rank, but for the mappings.
  struct Known {
    SegmentName name;
    bool is_reachable = false;  // by every rank that wanted to
    uint64_t used = 0;          // the last question in which it came up
    std::optional<PeerSegment> mapped;
  };
  static constexpr size_t kInput = 0, kOutput = 1, kKinds = 2;
  using Offers = std::array<BufferOffer, kKinds>;
  BufferOffer place(const std::byte* buffer, size_t bytes) const;
  bool areSound(size_t kind) const;
  Status findAll(size_t kind);
  Known* find(const SegmentName& name);
  void remember(const SegmentName& name);
  void forgetOldest();
  void dropFreed();

  const SegmentList& segments_;
  const GroupMap& map_;
  int rank_;
  Memory memory_;
  std::vector<int64_t> processes_;
  uint64_t questions_ = 0;
  uint32_t refusals_ = 0;  // since a call was served
  uint32_t skipped_ = 0;
  std::array<size_t, kKinds> bytes_{};
  std::array<bool, kKinds> is_shared_{};
  Offers own_;
  std::vector<Offers> offers_;  // by rank
  std::byte could_map_{};
  std::vector<std::byte> confirmations_;  // by rank
  std::vector<SegmentName> fresh_;        // of this question
  std::vector<Known> known_;
  std::array<std::vector<std::byte*>, kKinds> found_;  // by position
};

}  // namespace horing
