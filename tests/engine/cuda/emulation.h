#pragma once
// Runs the lanes of several ranks at once, as their kernels would, on threads of the host.
#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "emulated_block.h"
#include "engine/cuda/bound_plan.h"
#include "engine/cuda/fold_rules.h"

namespace horing::test {

template <class R>
bool runLane(const cuda::LaneCalls& calls, int32_t rank, int32_t lane, int32_t part,
             EmulatedLaneThread& thread) {
  return cuda::LaneRun<R, EmulatedLaneThread>({calls, rank, 0, lane, part, thread.shared()}, thread).run();
}

struct EmulatedLane {
  DataType type;
  RedOp op;
  bool (*run)(const cuda::LaneCalls&, int32_t, int32_t, int32_t, EmulatedLaneThread&);
};
template <DataType kType, RedOp kOp>
inline constexpr EmulatedLane kLaneOf = {kType, kOp, runLane<cuda::RuleOf<kType, kOp>>};
// The lanes that tests use. Each takes a second to compile; fold_test.cpp folds by all rules, and lanes use all rules on a GPU.
inline constexpr EmulatedLane kEmulatedLanes[] = {
    kLaneOf<DataType::kFloat32, RedOp::kSum>,       kLaneOf<DataType::kFloat32, RedOp::kAvg>,
    kLaneOf<DataType::kFloat32, RedOp::kPreMulSum>, kLaneOf<DataType::kInt32, RedOp::kSum>,
    kLaneOf<DataType::kInt32, RedOp::kPreMulSum>,   kLaneOf<DataType::kInt8, RedOp::kMax>,
    kLaneOf<DataType::kInt8, RedOp::kPreMulSum>,
};
inline auto emulatedLane(DataType type, RedOp op) {
  const auto found =
      std::find_if(std::begin(kEmulatedLanes), std::end(kEmulatedLanes),
                   [&](const EmulatedLane& each) { return each.type == type && each.op == op; });
  HORING_CHECK(found != std::end(kEmulatedLanes));  // a test uses another: add it
  return found->run;
}

// A kernel about to run: a call of one rank, or of all.
struct Launch {
  Launch(const cuda::LaneCall& call, DataType t = DataType::kFloat32, RedOp o = RedOp::kSum)
      : Launch(std::vector{call}, t, o) {}
  Launch(const std::vector<cuda::LaneCall>& of_ranks, DataType t, RedOp o) : type(t), op(o) {
    for (const cuda::LaneCall& call : of_ranks) calls.each[calls.count++] = call;
  }
  cuda::LaneCalls calls;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  uint32_t threads = 3;  // of each block
};

class Emulation {
 public:
  void add(const Launch& launch) {
    const auto run = emulatedLane(launch.type, launch.op);
    const auto& calls = *calls_.emplace_back(std::make_unique<cuda::LaneCalls>(launch.calls));
    for (int32_t rank = 0; rank < calls.count; ++rank)
      for (int32_t part = 0; part < calls.each[rank].used_parts; ++part)
        for (int32_t lane = 0; lane < calls.each[rank].plan.lane_count; ++lane) {
          EmulatedBlock& block = *blocks_.emplace_back(std::make_unique<EmulatedBlock>(launch.threads));
          threads_ += static_cast<int>(launch.threads);
          for (uint32_t thread = 0; thread < launch.threads; ++thread)
            bodies_.push_back([left = threads_left_, run, &calls, &block, rank, lane, part, thread] {
              EmulatedLaneThread self(block, thread);
              (void)run(calls, rank, lane, part, self);
              left->fetch_sub(1, std::memory_order_relaxed);
            });
        }
  }

  // Runs concurrently with the kernels, repeatedly until they have ended.
  void addHost(std::function<void()> poll) {
    bodies_.push_back([left = threads_left_, poll = std::move(poll)] {
      while (left->load(std::memory_order_relaxed) > 0) {
        poll();
        EmulatedBlock::pause();
      }
    });
  }

  // In one thread, in an order that the seed gives; false: they hang.
  bool runSeeded(uint64_t seed, uint64_t most_switches = 2'000'000) {
    *threads_left_ = threads_;
    return runAsFibers(bodies_, seed, most_switches);
  }
  // Each GPU thread a thread of the system.
  void runThreads() {
    *threads_left_ = threads_;
    runAsThreads(bodies_);
  }

 private:
  std::vector<std::unique_ptr<cuda::LaneCalls>> calls_;
  std::vector<std::unique_ptr<EmulatedBlock>> blocks_;
  Bodies bodies_;
  int threads_ = 0;                                                                         // of all blocks
  std::shared_ptr<std::atomic<int>> threads_left_ = std::make_shared<std::atomic<int>>(0);  // that run
};

}  // namespace horing::test
