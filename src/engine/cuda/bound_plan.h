#pragma once
// A plan on a GPU: the image of a schedule in GPU memory, bound to queues.
#include <memory>
#include <span>

#include "engine/cuda/lane_call.h"
#include "engine/cuda/memory.h"
#include "engine/host/operation.h"

namespace horing::cuda {

// The same on every rank, except the number of threads.
struct BoundPlanSettings {
  int32_t parts = 1;   // of every chunk, 1 .. kMaxParts
  int32_t window = 4;  // slices
  uint32_t slot_bytes = 65536;
  uint32_t smallest_part_bytes = 16384;  // of a chunk; smaller parts are not worth a block
  uint64_t timeout_ns = UINT64_MAX;      // of each wait in a kernel; a prepared call may get another
  bool in_one_launch = false;            // one launch serves all ranks: kernels may access peers' buffers
  bool hosts_carry = true;               // proxies carry some messages; false: kernels reach all ranks
};
inline constexpr int32_t kMaxParts = 64;

// Provides the ports of this rank's connections and scratch queues, in memory that its kernels can access. Plans may share ports: they run
// one at a time, and leave queues empty.
class PortSource {
 public:
  virtual ~PortSource() = default;
  virtual Result<Port*> port(const PortName& name, int32_t part) = 0;
  // Activity words for the blocks of a further plan; null: not needed.
  virtual Result<Activity*> activity([[maybe_unused]] size_t blocks) {
    return static_cast<Activity*>(nullptr);
  }
};

// A resource. The memory and the ports must outlive it, and it must outlive the kernels that use it. One thread at a time.
class BoundPlan {
 public:
  // kInvalidArgument: the schedule reaches for peers' buffers, and not all ranks are in one launch. kInvalidUsage: a lane with more queues
  // than kMaxPortsOfLane. `abort`: a flag that kernels reach and that ends them, set by the host or by a kernel that gives up; one for all
  // ranks. Copied: `rank_of_position`, and `block_of_position`, of calls that have blocks in an order of their own; empty: there are none.
  static Result<std::unique_ptr<BoundPlan>> make(Schedule schedule, const BoundPlanSettings& settings,
                                                 std::span<const int32_t> rank_of_position,
                                                 std::span<const int32_t> block_of_position, uint32_t* abort,
                                                 Memory& memory, PortSource& ports);
  // The most memory that it takes, without ports and queues, and the number of activity words.
  struct Needs {
    size_t bytes = 0;
    size_t blocks = 0;
  };
  static Needs needsOf(const PlanImage& image, int32_t parts, int32_t ranks);
  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  const Schedule& schedule() const { return schedule_; }
  // The kernel's form of a call with blocks of one size, in either order; `factor_at` in memory that the GPU can access. kInvalidArgument:
  // unequal blocks, which kernels do not support; a factor per rank where one rank folds the inputs of others.
  Result<LaneCall> prepare(const Call& call) const;
  // The grid has a block for each lane of each part that the call uses.
  int32_t lanes() const { return view_.lane_count; }
  int32_t parts() const { return view_.parts; }

  // The result of the last calls' kernels, once they have ended: ok, or why and where they gave up.
  Status outcome(Failure* where = nullptr) const;
  // For a part: the last run that a block has begun, and the last run that all blocks have ended, counted from 1; see
  // PortSource::activity(). Any thread, while kernels run.
  Activity runs(int32_t part) const;

 private:
  BoundPlan(Schedule schedule, const BoundPlanSettings& settings, Memory& memory)
      : schedule_(std::move(schedule)), settings_(settings), memory_(memory) {}
  Status upload(const PlanImage& image, PortSource& ports);
  Status uploadPorts(const PlanImage& image, PortSource& ports);

  Schedule schedule_;
  BoundPlanSettings settings_;
  Memory& memory_;
  PlanView view_;
  std::vector<std::vector<PortName>> ports_of_lanes_;
  bool reaches_peers_ = false;
  size_t blocks_ = 1, widest_part_ = 0;  // of PlanImage
  bool has_own_order_ = false;           // of blocks, besides the order of ranks
};

}  // namespace horing::cuda
