#pragma once
// One call of a plan as arguments of its kernel: by value, so that a graph replay repeats the call. State that changes from replay to
// replay (sequence numbers, counters) is in GPU memory.
#include <algorithm>

#include "base/quotient.h"
#include "engine/cuda/fold_rules.h"
#include "engine/cuda/plan_image.h"
#include "schedule/layout.h"

namespace horing::cuda {

// A bit in the number of a call: a graph replays it.
inline constexpr uint64_t kInGraph = uint64_t{1} << 63;
// The number of sends and receives, which are not calls of all ranks.
inline constexpr uint64_t kNoCall = ~kInGraph;

// How a message, or the largest chunk of a call, is cut into parts: the same function of its size at both ends of a queue.
struct PartCut {
  // Parts begin at a multiple of this many elements of the chunk: 16 bytes or more for any type.
  static constexpr size_t kUnit = 128;
  int32_t parts = 1;
  size_t smallest = kUnit;  // the fewest elements of a part that is worth a block

  // Elements of each part; the last parts may have fewer or none.
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
  // The number of parts with elements of a chunk, at least one.
  constexpr int32_t used(size_t chunk_count) const {
    const size_t used = quotientUp(chunk_count, sizeOf(chunk_count));
    return used == 0 ? 1 : static_cast<int32_t>(used);
  }
};

// The sizes of all chunks of a call, computed in advance so that a kernel need not divide. In elements.
struct ChunkSizes {
  size_t block = 0;          // per block (ImageStep); less for the last ones of a vector that is cut freely
  size_t vector = SIZE_MAX;  // length of a vector that is cut freely
  size_t part = 1;           // per part of the largest chunk; less for the last parts
  int32_t order = 0;         // of blocks, see ImageStep
  // Where chunks differ in size: 1 / (the call's parts), in 2^-kInverseBits and rounded up. 0: all are cut as the largest.
  uint32_t inverse_parts = 0;
  static constexpr int kInverseBits = 31;
  static constexpr uint32_t inverse(int32_t parts) {
    return static_cast<uint32_t>(quotientUp(size_t{1} << kInverseBits, static_cast<size_t>(parts)));
  }

  // Elements of each part of a chunk: parts would otherwise have equal shares of the largest chunks, and none, or all, of small ones.
  constexpr size_t partOf(size_t chunk_count) const {
    if (inverse_parts == 0 || chunk_count == 0) return part;
    const size_t last_unit = (chunk_count - 1) / PartCut::kUnit;
    return std::min(part, ((last_unit * inverse_parts >> kInverseBits) + 1) * PartCut::kUnit);
  }

  // A part of block `number`, from the start of its buffer.
  constexpr ElementRange range(int32_t number, const BlockPart& part_of_block) const {
    const size_t begin = std::min(static_cast<size_t>(number) * block, vector);
    const size_t count = std::min(block, vector - begin);
    const size_t from = BlockPart::before(count, part_of_block.begin);
    return {begin + from, BlockPart::before(count, part_of_block.end) - from};
  }
};

// Physical parts are blocks and queues: part p of a call runs on part (first_part + p) % plan.parts. So calls with few parts rotate over
// them, and calls of one launch run side by side.
struct LaneCall {
  PlanView plan;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  ChunkSizes sizes;
  Slicing slicing;  // of each part
  int32_t first_part = 0;
  int32_t used_parts = 1;
  int32_t slices = 0;  // in the largest part of any chunk
  uint32_t element_bytes = 1;
  FoldScale scale;      // is_final: as each step says
  uint64_t digest = 0;  // of everything that all ranks must agree on, except the call's number
  uint64_t number = 0;  // identifies a failed call

  // The call's part that runs on this physical part; none if beyond used_parts.
  constexpr int32_t shareOf(int32_t part) const {
    return part < first_part ? part - first_part + plan.parts : part - first_part;
  }
};

// The arguments of a kernel: the same number of calls for each rank that it serves (ranks that share the GPU): the first call of every
// rank, then the second, and so on. The grid has a block for each lane (x) of each part (y, from `first_part` on) of each rank (z); blocks
// without a lane end at once. If one launch serves all ranks of a communicator, a call can access the other ranks' buffers.
inline constexpr int kMaxCallsOfLaunch = 8;
struct LaneCalls {
  int32_t count = 0;
  int32_t first_part = 0;
  LaneCall each[kMaxCallsOfLaunch];
};
static_assert(sizeof(LaneCalls) <= 4096, "what every GPU takes as a kernel's parameters");

// A lane's place in its slice loop as a monotonic number, also over calls.
struct LaneClock {
  static constexpr int kSequenceShift = 40;  // steps x slices stay below

  int32_t steps = 0;
  int32_t slices = 0;
  int32_t window = 1;

  // The clock after slice `slice` of step `step` in the call with this sequence number.
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
