#pragma once
// A plan as kernels read it: the schedule of one rank, its steps written out, in flat arrays of plain structs.
//
// A chunk is cut into *parts*; every part runs the whole schedule for itself, on blocks and queues of its own, so that one
// rank keeps many blocks busy. Parts share nothing: what waits for what does so within a part.
#include <cstdint>
#include <span>
#include <vector>

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

// Steps of a lane that run at once, at most; ends of queues that a lane has, all of which a block keeps near at hand.
inline constexpr int32_t kMaxConcurrentSteps = 32;
inline constexpr int32_t kMaxPortsOfLane = 256;

// Sources and ports by their number in the lane. Aligned, for a block fetches many.
struct alignas(16) ImageStep {
  // In which order blocks of one size lie in buffers: by rank, or as BoundPlan's caller has it.
  static constexpr int32_t kOrders = 2;

  int32_t chunk = 0;
  // The chunk in the buffers, in chunks from their start, for each order.
  int32_t input_block[kOrders] = {};
  int32_t output_block[kOrders] = {};
  int32_t first_source = 0;
  int32_t source_count = 0;
  int32_t keep_port = -1;  // of a scratch queue; -1: keeps nothing there
  int32_t send_port = -1;  // -1: not sent
  int32_t wait_lane = -1;  // -1: waits for nothing
  int32_t wait_step = 0;
  int32_t wait_step_count = 0;  // of that lane
  bool is_awaited = false;      // by another lane
  // So many steps may run at once, this one and those behind it: no two of them use one port, or one chunk that either writes. Set on the
  // first of them alone. Schedules are proven step after step; what another lane waits for, or takes from a scratch queue, is a step by
  // itself, so that it still stands for all before it.
  int32_t concurrent_steps = 1;
  bool keeps_out = false;
  bool keeps_every_out = false;  // of all ranks of the launch, see LaneCalls
  bool completes = false;
  // Whether other threads of a block may have used its ports since they last met: those who wait for a message look after its port, the
  // last one after those of what is sent.
  bool needs_barrier = false;
};

// One end of a queue that the schedule uses, to be bound to a Port: of a connection to `position` on `channel`
// (engine/host/plan.h), or of the scratch queue `queue`.
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
  bool reaches_peers = false;  // reads their inputs, or writes into their outputs

  // Without lanes of signals: these are of schedules that reach for peers' buffers, and such a one kernels run in one launch of all ranks,
  // which begins when all have entered, and ends when all are done. `block_of_position`: the other order of blocks; empty: there is none.
  static PlanImage make(const Schedule& schedule, std::span<const int32_t> rank_of_position,
                        std::span<const int32_t> block_of_position);
};

// What one lane of one part keeps from call to call, in memory of the GPU. Written by its block alone.
struct alignas(64) LaneRecord {
  uint64_t sequence = 0;  // calls that it has done
  uint64_t progress = 0;  // see LaneClock; other lanes of the part wait for it
};

// Says to the host whether one lane of one part runs, also in a kernel that a graph replays: in pinned memory, written by its block
// alone. Both are the number of the call, from 1, of those that use the part.
struct Activity {
  uint64_t begun = 0;
  uint64_t ended = 0;

  // `hosts_carry`: whoever sees the end shall have seen what was posted before it. Else the host may see it before the beginning, too.
  HORING_DEVICE void end(uint64_t run, bool hosts_carry) {
    if (hosts_carry) releaseFence();
    storeFenced(&ended, run);
  }
};

// What a kernel leaves behind when it gives up, in memory of the GPU: written by the first block that does.
struct Failure {
  enum class Kind : uint32_t { kNone, kAborted, kForeignMessage, kOverdue };
  uint32_t claimed = 0;  // not 0: all blocks give up
  uint32_t kind = 0;     // a Kind, written after all that follows
  int32_t lane = 0;
  int32_t part = 0;
  int32_t step = 0;
  int32_t slice = 0;
  int32_t port = -1;  // of the lane; -1: another lane
  uint64_t call = 0;  // its number
  uint64_t run = 0;   // of those that use the part, how many it came after
};

// The image in memory of a GPU, bound. All lanes have as much room as the largest, so that a block knows at once where its own is.
struct PlanView {
  const int32_t* step_counts = nullptr;  // [lane]
  const ImageStep* steps = nullptr;      // [lane * most_steps + step]
  const ImageSource* sources = nullptr;  // [lane * most_sources + source]
  Port* const* ports = nullptr;          // [(part * lane_count + lane) * most_ports + port]; null: none
  LaneRecord* records = nullptr;         // [part * lane_count + lane]
  Failure* failure = nullptr;
  Activity* activity = nullptr;  // as records; null: nobody wants to know
  int32_t lane_count = 0;
  int32_t most_steps = 0;  // of a lane
  int32_t most_sources = 0;
  int32_t most_ports = 0;
  int32_t parts = 1;
  int32_t window = 4;
  uint32_t* abort = nullptr;  // not 0: give up; who does so sets it
  const int32_t* rank_of_position = nullptr;
  uint64_t timeout_ns = UINT64_MAX;  // of a wait
  int32_t ranks = 1;
  bool hosts_carry = true;  // some of its messages
};

}  // namespace horing::cuda
