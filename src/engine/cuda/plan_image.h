#pragma once
// A plan as kernels read it: the schedule of one rank, its steps written out, in flat arrays of plain structs.
//
// A chunk is cut into *parts*; every part runs the whole schedule independently, on its own blocks and queues, so that one rank keeps many
// blocks busy. Parts share nothing: all waits are within a part.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/quotient.h"
#include "engine/cuda/queue.h"
#include "schedule/schedule.h"

namespace horing::cuda {

// `index`: of the port (kRecv, kScratch), or the position (kPeerIn).
struct ImageSource {
  Source::Kind kind = Source::Kind::kIn;
  int32_t index = 0;

  HORING_DEVICE bool takesPort() const {
    return kind == Source::Kind::kRecv || kind == Source::Kind::kScratch;
  }
};

// From `begin` to `end` of a block, in 1 / kWhole of it. Parts begin at a multiple of kUnit elements. Hosts cut exactly (schedule/rails.h): near
// a cut floats may be folded in another order than by hosts.
struct BlockPart {
  static constexpr size_t kWhole = 1 << 15;
  static constexpr size_t kUnit = 64;

  uint16_t begin = 0;
  uint16_t end = kWhole;

  // The elements before `at`, of a block of `count`.
  static constexpr size_t before(size_t count, size_t at) { return alignedShare(count, at, kWhole, kUnit); }
  // An upper bound of the elements of parts of up to this width, in blocks of up to `count` elements.
  static constexpr size_t most(size_t count, size_t width) {
    return width == kWhole ? count : std::min(count, before(count, width) + 2 * kUnit);
  }
};

// The most concurrent steps of a lane; the most ports of a lane, which a block keeps in shared memory.
inline constexpr int32_t kMaxConcurrentSteps = 32;
inline constexpr int32_t kMaxPortsOfLane = 256;

// Sources and ports by their number in the lane. Aligned, since a block loads many.
struct alignas(16) ImageStep {
  // The orders of equal blocks in buffers: by rank, or BoundPlan's `block_of_position`.
  static constexpr int32_t kOrders = 2;

  int32_t chunk = 0;
  // The chunk in the buffers: the block, or row of the vector, that contains it, in blocks from their start, for each order; and the part of
  // the block. If groups have one size, each chunk is a block.
  int32_t input_block[kOrders] = {};
  int32_t output_block[kOrders] = {};
  BlockPart of_block;
  int32_t first_source = 0;
  int32_t source_count = 0;
  int32_t keep_port = -1;  // of a scratch queue; -1: none
  int32_t send_port = -1;  // -1: not sent
  int32_t wait_lane = -1;  // -1: waits for nothing
  int32_t wait_step = 0;
  int32_t wait_step_count = 0;  // of that lane
  bool is_awaited = false;      // by another lane
  // This many steps, from this one on, may run concurrently: no two of them use the same port, or a chunk that either writes. Set on the
  // first of them only. The verifier proves schedules in step order; so a step that another lane waits for, or takes from a scratch queue,
  // is never concurrent, and still stands for all steps before it.
  int32_t concurrent_steps = 1;
  bool keeps_out = false;
  bool keeps_every_out = false;  // keeps in the outputs of all ranks of the launch, see LaneCalls
  bool completes = false;
  // Whether other threads of a block may have used its ports since the last barrier: the thread that waits for a message uses its port, the
  // last thread uses ports for sending.
  bool needs_barrier = false;
};

// One end of a queue that the schedule uses, to be bound to a Port: a connection to `position` on `channel` (engine/host/plan.h), or the
// scratch queue `queue`.
struct PortName {
  enum class Kind : uint8_t { kSend, kReceive, kScratchSend, kScratchReceive };
  Kind kind = Kind::kSend;
  int32_t position = -1;
  int32_t channel = 0;
  int32_t queue = -1;
  bool operator==(const PortName&) const = default;
  bool sends() const { return kind == Kind::kSend || kind == Kind::kScratchSend; }
};

struct ImageLane {
  std::vector<ImageStep> steps;
  std::vector<ImageSource> sources;
  std::vector<PortName> ports;  // no other lane uses these
};

// A value.
struct PlanImage {
  std::vector<ImageLane> lanes;
  size_t blocks = 1;                       // into which Extent::count elements are cut
  size_t widest_part = BlockPart::kWhole;  // of a block, of all ranks' chunks
  bool reaches_peers = false;              // reads peers' inputs, or writes peers' outputs

  // Drops signal lanes: only schedules that access peers' buffers have them, and kernels run such a schedule in one launch of all ranks,
  // which begins when all have entered and ends when all are done. `block_of_position`: the second order of blocks; empty: none.
  static PlanImage make(const Schedule& schedule, std::span<const int32_t> rank_of_position,
                        std::span<const int32_t> block_of_position);
};

// The state of one lane of one part between calls, in GPU memory. Written by its block only.
struct alignas(64) LaneRecord {
  uint64_t sequence = 0;  // calls done
  uint64_t progress = 0;  // see LaneClock; other lanes of the part wait for it
};

// Tells the host whether one lane of one part runs, also in a graph replay: in pinned memory, written by its block only. Both members count
// the calls that use the part, from 1.
struct Activity {
  uint64_t begun = 0;
  uint64_t ended = 0;

  // `hosts_carry`: the end must become visible after all earlier posts. Otherwise the host may even see it before the beginning.
  HORING_DEVICE void end(uint64_t run, bool hosts_carry) {
    if (hosts_carry) releaseFence();
    storeFenced(&ended, run);
  }
};

// The failure record of a kernel, in GPU memory: written by the first block that gives up.
struct Failure {
  enum class Kind : uint32_t { kNone, kAborted, kForeignMessage, kOverdue };
  uint32_t claimed = 0;  // not 0: all blocks give up
  uint32_t kind = 0;     // a Kind, written last
  int32_t lane = 0;
  int32_t part = 0;
  int32_t step = 0;
  int32_t slice = 0;
  int32_t port = -1;        // of the lane; -1: another lane
  uint64_t call = 0;        // the call's number
  uint64_t run = 0;         // the number of earlier calls that use the part
  uint64_t timeout_ns = 0;  // the call's
};

// The image in GPU memory, bound to ports. All lanes have as much room as the largest, so that a block can compute its offset.
struct PlanView {
  const int32_t* step_counts = nullptr;  // [lane]
  const ImageStep* steps = nullptr;      // [lane * most_steps + step]
  const ImageSource* sources = nullptr;  // [lane * most_sources + source]
  Port* const* ports = nullptr;          // [(part * lane_count + lane) * most_ports + port]; null: none
  LaneRecord* records = nullptr;         // [part * lane_count + lane]
  Failure* failure = nullptr;
  Activity* activity = nullptr;  // indexed like records; null: not needed
  int32_t lane_count = 0;
  int32_t most_steps = 0;  // of a lane
  int32_t most_sources = 0;
  int32_t most_ports = 0;
  int32_t parts = 1;
  int32_t window = 4;
  uint32_t* abort = nullptr;  // not 0: give up; a kernel that gives up sets it
  const int32_t* rank_of_position = nullptr;
  uint64_t timeout_ns = UINT64_MAX;  // of a wait
  int32_t ranks = 1;
  bool hosts_carry = true;  // proxies carry some messages
};

}  // namespace horing::cuda
