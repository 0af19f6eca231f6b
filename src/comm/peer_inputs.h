#pragma once
// Where the inputs of all ranks lie, for schedules that read them in place; and whether all ranks can read them.
//
// For each call the ranks tell each other where their inputs lie (an all-gather of offers). Everything that decides comes from
// these offers, or from a second round in which every rank says whether it could map memory that nobody had seen before. So
// all ranks decide alike, without asking more than that.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/host/operation.h"
#include "topology/group_map.h"
#include "transport/memory/segment_list.h"

namespace horing {

inline constexpr size_t kMaxKnownSegments = 1024;  // of all ranks of a communicator

// Where one rank's input lies. From a peer it is hostile until looked at.
struct InputOffer {
  SegmentName segment;   // id 0: in memory that others cannot map
  uint64_t offset = 0;   // bytes into the segment
  uint64_t address = 0;  // in the process, where all ranks live in one
  uint64_t reserved[2] = {};
};
static_assert(sizeof(InputOffer) == 56);

// One thread at a time.
class PeerInputs {
 public:
  enum class Memory : uint8_t {
    kOfProcess,   // all ranks are threads of one process: any memory will do
    kOfSegments,  // processes of one node
  };
  // `segments` and `map` must outlive it.
  PeerInputs(const SegmentList& segments, const GroupMap& map, int rank, Memory memory);

  // Whether the ranks ask each other this time; they stop asking often where the answer was always no. The same answer on
  // every rank, once for each call.
  bool asks();
  // The all-gather of the offers, for a call with an input of so many bytes.
  Call offer(const std::byte* input, size_t bytes);
  // After that: whether a second round is due. Maps what is new.
  bool needsConfirmation();
  // The all-gather of that round.
  Call confirmation();
  // After it: the inputs by position, valid until the next offer, if everybody can read everything, else null. Errors: a rank
  // offers memory that it has freed.
  Result<const std::byte* const*> agreed();

 private:
  // A segment that was offered before, by whichever rank; the same list on every rank, but for the mappings.
  struct Known {
    SegmentName name;
    bool is_readable = false;  // by every rank that wanted to
    uint64_t used = 0;         // the last question in which it came up
    std::optional<PeerSegment> mapped;
  };
  const InputOffer& offerOf(int rank) const { return offers_[static_cast<size_t>(rank)]; }
  bool isSound(const InputOffer& offer) const;
  Known* find(const SegmentName& name);
  void remember(const SegmentName& name);
  void forgetOldest();
  void dropFreed();

  const SegmentList& segments_;
  const GroupMap& map_;
  int rank_;
  Memory memory_;
  uint64_t questions_ = 0;
  uint32_t refusals_ = 0;  // since the last yes
  uint32_t skipped_ = 0;
  size_t bytes_ = 0;  // of the input
  bool is_shared_ = false;
  InputOffer own_;
  std::vector<InputOffer> offers_;  // by rank
  std::byte could_map_{};
  std::vector<std::byte> confirmations_;  // by rank
  std::vector<SegmentName> fresh_;        // of this question
  std::vector<Known> known_;
  std::vector<const std::byte*> inputs_;  // by position
};

}  // namespace horing
