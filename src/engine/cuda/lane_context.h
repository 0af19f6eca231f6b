#pragma once
// The context of the threads of a block: the lane that they run, and its state in shared memory.
#include "engine/cuda/lane_call.h"

namespace horing::cuda {

// The most destinations of a step: outputs of ranks that share the GPU, or one to keep the value and one to send it.
inline constexpr int kMaxDestinations = kMaxCallsOfLaunch;
inline constexpr int kMostCrews = 8;  // per block

// A step restricted to one part of a call.
struct StepOfPart {
  size_t input = 0;   // bytes from the start of the rank's buffers
  size_t output = 0;  // the same
  size_t count = 0;   // elements
  uint64_t tag = 0;   // of its messages, without the slice
};

// Shared by the threads that run a step, for one slice.
template <int32_t kMostSources>
struct SliceShared {
  const std::byte* operands[kMostSources];
  uint8_t is_input[kMostSources];
  std::byte* destinations[kMaxDestinations];
  int32_t destination_count;
  bool lacks;       // a wait failed, and the waiting thread has given up
  bool is_foreign;  // a message of another operation was received: the same
};

// GPU memory has a latency of a quarter of a microsecond, and reading a counter invalidates the block's cache.
struct LaneShared {
  static constexpr int32_t kSteps = 32;    // steps of the lane loaded at a time
  static constexpr int32_t kSources = 64;  // further sources stay in GPU memory
  int32_t step_count;                      // steps of the lane
  ImageStep steps[kSteps];
  StepOfPart steps_of_part[kSteps];
  int32_t first_source;  // the index of the first loaded source
  ImageSource sources[kSources];
  Port ports[kMaxPortsOfLane];
  Port* far_ports[kMaxPortsOfLane];  // the ports in GPU memory
  SliceShared<kMaxSources> slice;
  SliceShared<1> slices_of_crews[kMostCrews];
  uint64_t scalar;    // the call's scalar, if in memory
  uint64_t sequence;  // of the call, see LaneRecord
  bool has_failed;    // an earlier run, or another lane, has failed
};
static_assert(kMaxConcurrentSteps <= LaneShared::kSteps);

// A lane of one part, and the call that it runs.
struct LaneContext {
  const LaneCalls& calls;
  const int32_t call_number;  // index of the call
  const int32_t first;        // index of the first rank's corresponding call
  const int32_t lane_number;
  const int32_t part;
  LaneShared& shared;

  HORING_DEVICE const LaneCall& call() const { return calls.each[call_number]; }
  HORING_DEVICE const PlanView& plan() const { return call().plan; }
  // The corresponding call of another rank in the launch.
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
