#pragma once
// One call of a plan as its kernel gets it: by value, so that a graph that replays the launch repeats the call. What changes
// from one replay to the next (sequence numbers, counters) is in the memory of the GPU.
#include "base/quotient.h"
#include "engine/cuda/fold_rules.h"
#include "engine/cuda/plan_image.h"
#include "schedule/layout.h"

namespace horing::cuda {

// In the number of a call: a graph replays it.
inline constexpr uint64_t kInGraph = uint64_t{1} << 63;
// The number of sends and receives, which are no call of all ranks.
inline constexpr uint64_t kNoCall = ~kInGraph;

// How a message, or the largest chunk of a call, is cut into parts: the same function of its size at both ends of a queue.
struct PartCut {
  // Parts begin at a multiple of so many elements of the chunk: 16 bytes and more, whatever the type.
  static constexpr size_t kUnit = 128;
  int32_t parts = 1;
  size_t smallest = kUnit;  // elements of a part that is worth its block

  // Elements of each part but the last ones, which may have fewer or none.
  constexpr size_t sizeOf(size_t chunk_count) const {
    const size_t even = quotientUp(chunk_count, static_cast<size_t>(parts));
    return (std::max(even, smallest) + kUnit - 1) / kUnit * kUnit;
  }
  constexpr ElementRange range(size_t chunk_count, int32_t part) const {
    return range(chunk_count, sizeOf(chunk_count), part);
  }
  static constexpr ElementRange range(size_t chunk_count, size_t size, int32_t part) {
    const size_t begin = std::min(static_cast<size_t>(part) * size, chunk_count);
    return {begin, std::min(size, chunk_count - begin)};
  }
  // Parts that have elements of a chunk, at least one.
  constexpr int32_t used(size_t chunk_count) const {
    const size_t used = quotientUp(chunk_count, sizeOf(chunk_count));
    return used == 0 ? 1 : static_cast<int32_t>(used);
  }
};

// What is known of all chunks of a call, so that a kernel need not divide. In elements.
struct ChunkSizes {
  size_t chunk = 0;          // of each, but for the last ones of a vector that is cut at will
  size_t vector = SIZE_MAX;  // that is cut at will; else chunks are blocks, and end where they end
  size_t part = 1;           // of each part of a chunk, but for the last ones
  int32_t order = 0;         // of blocks, see ImageStep

  // Chunk, or block, number `block`, from the start of its buffer.
  constexpr ElementRange range(int32_t block) const {
    const size_t begin = std::min(static_cast<size_t>(block) * chunk, vector);
    return {begin, std::min(chunk, vector - begin)};
  }
};

// Physical parts are blocks and queues: part p of a call runs on part (first_part + p) % plan.parts. So calls that need few of them
// take turns, and those of one launch run side by side.
struct LaneCall {
  PlanView plan;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  ChunkSizes sizes;
  Slicing slicing;  // of a part
  int32_t first_part = 0;
  int32_t used_parts = 1;
  int32_t slices = 0;  // of the largest part of any chunk
  uint32_t element_bytes = 1;
  FoldScale scale;      // is_final: as each step says
  uint64_t digest = 0;  // of what all ranks must agree on, but for the call's number
  uint64_t number = 0;  // of the call, for whoever asks which one failed

  // Which of the call's parts the physical one is; beyond used_parts, none.
  constexpr int32_t shareOf(int32_t part) const {
    return part < first_part ? part - first_part + plan.parts : part - first_part;
  }
};

// What a kernel gets: of each rank that it serves, which share a GPU, as many calls: the first of every rank, then the second, and
// so on. A block for each lane (x) of each part (y, from `first_part` on) of each rank (z); where ranks have different lanes, blocks
// without one end at once. Where one launch serves all ranks of a communicator, by rank, a call can reach for the buffers of the others.
inline constexpr int kMaxCallsOfLaunch = 8;
struct LaneCalls {
  int32_t count = 0;
  int32_t first_part = 0;
  LaneCall each[kMaxCallsOfLaunch];
};
static_assert(sizeof(LaneCalls) <= 4096, "what every GPU takes as a kernel's parameters");

// A lane's place in its slice loop as a number that only grows, over calls too.
struct LaneClock {
  static constexpr int kSequenceShift = 40;  // steps x slices stay below

  int32_t steps = 0;
  int32_t slices = 0;
  int32_t window = 1;

  // Once slice `slice` of step `step` is done in the call with this sequence number.
  constexpr uint64_t after(uint64_t sequence, int32_t step, int32_t slice) const {
    const int32_t begin = slice / window * window;
    const int32_t width = std::min(window, slices - begin);
    const uint64_t done = static_cast<uint64_t>(begin) * static_cast<uint64_t>(steps) +
                          static_cast<uint64_t>(step) * static_cast<uint64_t>(width) +
                          static_cast<uint64_t>(slice - begin + 1);
    return (sequence << kSequenceShift) + done;
  }
  // Whether a lane at `progress` has reached `target`; calls far apart may wrap around.
  static constexpr bool reached(uint64_t progress, uint64_t target) {
    return static_cast<int64_t>(progress - target) >= 0;
  }
};

}  // namespace horing::cuda
