#pragma once
// What the threads of a block know of the lane that they run: where its parts are, and what the block keeps of them near at hand.
#include "engine/cuda/lane_call.h"

namespace horing::cuda {

// Whom a step can write to: outputs of ranks that share the GPU, or one place that keeps the value and one that sends it.
inline constexpr int kMaxDestinations = kMaxCallsOfLaunch;
inline constexpr int kMostCrews = 8;  // of a block

// What a step is of one part of a call.
struct StepOfPart {
  size_t input = 0;   // bytes from the start of the rank's buffers
  size_t output = 0;  // the same
  size_t count = 0;   // elements
  uint64_t tag = 0;   // of its messages, but for the slice
};

// What the threads that run a step tell each other about a slice.
template <int32_t kMostSources>
struct SliceShared {
  const std::byte* operands[kMostSources];
  uint8_t is_input[kMostSources];
  std::byte* destinations[kMaxDestinations];
  int32_t destination_count;
  bool lacks;       // something that it waited for: who noticed has given up
  bool is_foreign;  // a message of another operation: the same
};

// Memory of the GPU is a quarter of a microsecond away, and after each look at a counter so is all that the block has read of it before.
struct LaneShared {
  static constexpr int32_t kSteps = 32;    // so many of the lane at a time
  static constexpr int32_t kSources = 64;  // what is beyond stays where it is
  int32_t step_count;                      // of the lane
  ImageStep steps[kSteps];
  StepOfPart steps_of_part[kSteps];
  int32_t first_source;  // of those, among the lane's
  ImageSource sources[kSources];
  Port ports[kMaxPortsOfLane];
  Port* far_ports[kMaxPortsOfLane];  // where these are kept from call to call
  SliceShared<kMaxSources> slice;
  SliceShared<1> slices_of_crews[kMostCrews];
  uint64_t scalar;    // the call's, if it has one in memory
  uint64_t sequence;  // of the call, see LaneRecord
  bool has_failed;    // a run before it, or a lane beside it
};
static_assert(kMaxConcurrentSteps <= LaneShared::kSteps);

// A lane of one part, and the call that it does.
struct LaneContext {
  const LaneCalls& calls;
  const int32_t call_number;  // among these
  const int32_t first;        // of the first rank's, which goes with it
  const int32_t lane_number;
  const int32_t part;
  LaneShared& shared;

  HORING_DEVICE const LaneCall& call() const { return calls.each[call_number]; }
  HORING_DEVICE const PlanView& plan() const { return call().plan; }
  // Of another rank that the launch serves.
  HORING_DEVICE const LaneCall& callOfRank(int32_t rank) const { return calls.each[first + rank]; }
  HORING_DEVICE const LaneCall& callAt(int32_t position) const {
    return callOfRank(plan().rank_of_position[position]);
  }
  HORING_DEVICE LaneRecord& record() const { return recordOf(lane_number); }
  HORING_DEVICE LaneRecord& recordOf(int32_t lane) const {
    return plan().records[part * plan().lane_count + lane];
  }
  HORING_DEVICE Activity& activity() const { return plan().activity[&record() - plan().records]; }
  HORING_DEVICE const ImageSource* sources() const {
    return inGlobal(plan().sources) + lane_number * plan().most_sources;
  }
  HORING_DEVICE ImageSource sourceAt(const ImageStep& step, int32_t s) const {
    const int32_t near = step.first_source + s - shared.first_source;
    return near < LaneShared::kSources ? shared.sources[near] : sources()[step.first_source + s];
  }
  // Null: the lane has fewer.
  HORING_DEVICE Port* farPort(int32_t number) const {
    return plan().ports[(part * plan().lane_count + lane_number) * plan().most_ports + number];
  }
};

}  // namespace horing::cuda
