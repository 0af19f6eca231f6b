#pragma once
// A plan on a GPU: the image of a schedule in its memory, bound to queues.
#include <memory>
#include <span>

#include "engine/cuda/lane_call.h"
#include "engine/cuda/memory.h"
#include "engine/host/operation.h"

namespace horing::cuda {

// The same on every rank, but for the number of threads.
struct BoundPlanSettings {
  int32_t parts = 1;   // of every chunk, 1 .. kMaxParts
  int32_t window = 4;  // slices
  uint32_t slot_bytes = 65536;
  uint32_t smallest_part_bytes = 16384;  // of a chunk; less is not worth a block
  uint64_t timeout_ns = UINT64_MAX;      // how long a kernel waits for anything
  bool in_one_launch = false;  // all ranks, by rank: then kernels may reach for each other's buffers
  bool hosts_carry = true;     // some of the messages between ranks; false: kernels reach all of them
};
inline constexpr int32_t kMaxParts = 64;

// Where the ends of this rank's connections and scratch queues are, in memory that its kernels reach. Plans may share them: they
// run one after the other, and leave queues empty.
class PortSource {
 public:
  virtual ~PortSource() = default;
  virtual Result<Port*> port(const PortName& name, int32_t part) = 0;
  // Where so many blocks of one more plan tell whether they run; null: nobody wants to know.
  virtual Result<Activity*> activity([[maybe_unused]] size_t blocks) {
    return static_cast<Activity*>(nullptr);
  }
};

// A resource. The memory and the ports must outlive it, and it the kernels that use it. One thread at a time.
class BoundPlan {
 public:
  // kInvalidArgument: the schedule reaches for peers' buffers, and not all ranks are in one launch. kInvalidUsage: a lane with more queues than kMaxPortsOfLane. `abort`: a flag that kernels reach and that ends them, set by the host or by a kernel that gives up; one for all ranks. Copied: `rank_of_position`,
  // and `block_of_position`, of calls that have blocks in an order of their own; empty: there are none.
  static Result<std::unique_ptr<BoundPlan>> make(Schedule schedule, const BoundPlanSettings& settings,
                                                 std::span<const int32_t> rank_of_position,
                                                 std::span<const int32_t> block_of_position, uint32_t* abort,
                                                 Memory& memory, PortSource& ports);
  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  const Schedule& schedule() const { return schedule_; }
  // A call with blocks of one size, in the order of ranks or in the other one, as a kernel gets it; `factor_at` in memory that the GPU
  // reaches. kInvalidArgument: blocks that differ, which kernels have no tables for; a factor of each rank, where one rank folds the inputs
  // of others.
  Result<LaneCall> prepare(const Call& call) const;
  // The grid that runs it: a block for each of these of each part that the call uses.
  int32_t lanes() const { return view_.lane_count; }
  int32_t parts() const { return view_.parts; }

  // What the kernels of the last calls left, once they have ended: ok, or why they gave up, and where.
  Status outcome(Failure* where = nullptr) const;
  // Of a part, the last run that a block has begun, and the last that all have ended, as blocks tell, from 1; see PortSource::activity(). Any
  // thread, while kernels run.
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
  bool has_own_order_ = false;  // of blocks, beside that by rank
};

}  // namespace horing::cuda
