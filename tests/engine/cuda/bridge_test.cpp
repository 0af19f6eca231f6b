// Kernels whose ranks reach each other only through their hosts: the same bits as the host engine, over any transport, and an end
// of every wait. Emulated.
#include "engine/cuda/bridge.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../../sanitizer.h"
#include "collective_case.h"
#include "emulation.h"
#include "gpu_world.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/loopback/loopback_transport.h"
#include "world.h"

namespace horing {
namespace {

using test::Buffers;
using test::Case;
using test::Emulation;
using test::GpuWorld;
using test::HostMemory;
using test::text;

// Every group is a node.
class Nodes {
 public:
  explicit Nodes(const Case& c, const FaultPlan& faults = {}, uint64_t timeout_ns = UINT64_MAX) : case_(c) {
    auto hub = LoopbackHub::create(c.shape.ranks()).take();
    std::vector<Transport*> transports;
    for (int rank = 0; rank < c.shape.ranks(); ++rank) {
      auto loopback = makeLoopbackTransport(hub, rank).take();
      transports.push_back(
          transports_.emplace_back(makeFaultyTransport(std::move(loopback), rank, faults)).get());
    }
    gpu_ = GpuWorld::make({c.algorithm,
                           c.collective,
                           c.shape,
                           0,
                           {c.parts, c.window, c.slot_bytes, 512, timeout_ns},
                           static_cast<uint32_t>(c.window) + 1,
                           transports},
                          memory_, &abort_)
               .take();
  }

  Emulation prepare(std::vector<Call> calls) {
    Emulation emulation;
    for (int32_t p = 0; p < gpu_->ranks(); ++p) {
      auto ready = gpu_->plan(p).prepare(calls[static_cast<size_t>(p)]);
      EXPECT_TRUE(ready.ok()) << ready.status().toString();
      emulation.add({ready.take(), calls[0].type, calls[0].op});
    }
    addHosts(emulation);
    return emulation;
  }
  void addHosts(Emulation& emulation) {
    for (test::HostOfGpu& host : gpu_->hosts())
      // The link reports its error in every call.
      emulation.addHost([&host] { (void)host.poll(); });
  }

  // In the order of a seed, or with threads of the system.
  void expectTheHostsBits(size_t count, int64_t seed) {
    Buffers got(case_, DataType::kFloat32, count), expected(case_, DataType::kFloat32, count);
    Emulation emulation = prepare(got.calls(DataType::kFloat32, RedOp::kSum, count));
    if (seed >= 0) {
      ASSERT_TRUE(emulation.runSeeded(static_cast<uint64_t>(seed), 20'000'000))
          << text(case_) << ", count " << count << " hangs";
    } else {
      emulation.runThreads();
    }
    for (int32_t p = 0; p < gpu_->ranks(); ++p)
      ASSERT_TRUE(gpu_->plan(p).outcome().ok()) << text(case_) << ": " << gpu_->plan(p).outcome().toString();
    test::expectHostResults(case_, expected, DataType::kFloat32, RedOp::kSum, count);
    for (size_t p = 0; p < got.outputs.size(); ++p)
      ASSERT_TRUE(got.outputs[p] == expected.outputs[p])
          << text(case_) << ", count " << count << ", position " << p;
  }

  GpuWorld& gpu() { return *gpu_; }
  uint32_t& abort() { return abort_; }

 private:
  Case case_;
  HostMemory memory_;
  uint32_t abort_ = 0;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::unique_ptr<GpuWorld> gpu_;
};

// Fibers switch stacks behind ThreadSanitizer's back.
#if !defined(HORING_TEST_TSAN)
TEST(CudaBridge, GivesTheBitsOfTheHostEngineForEveryAlgorithm) {
  for (Case c : test::everyAlgorithm({{3, 1}, {2, 2}})) {
    if (findAlgorithm(c.algorithm)->reachesPeers()) continue;
    c.parts = 2;
    Nodes nodes(c);
    for (const size_t count : {0, 1, 2000}) nodes.expectTheHostsBits(count, 1);
  }
}

TEST(CudaBridge, GivesThemHoweverLateMessagesAndCreditsAre) {
  for (const char* algorithm : {"ring", "ho_ring", "ho_direct"})
    for (int64_t seed = 0; seed < 3; ++seed) {
      const FaultPlan faults{
          .seed = static_cast<uint64_t>(seed) + 1, .max_delay_polls = 20, .max_credit_delay_polls = 20};
      Nodes nodes({algorithm, Collective::kAllReduce, {2, 2}, 2, 2, 512}, faults);
      nodes.expectTheHostsBits(9001, seed);
    }
}

#endif

// Kernels and hosts, in the order of a seed; with threads of the system where ThreadSanitizer looks. False: they hang.
bool run(Emulation& emulation, uint64_t seed, uint64_t most_switches = 2'000'000) {
#ifdef HORING_TEST_TSAN
  (void)seed, (void)most_switches;
  emulation.runThreads();
  return true;
#else
  return emulation.runSeeded(seed, most_switches);
#endif
}

// As the replays of a graph: the same launches, without calls of the hosts in between. The hosts see running kernels.
TEST(CudaBridge, NeedsNoCallForTheSameLaunchAgain) {
  const Case c{"ho_ring", Collective::kAllReduce, {2, 2}, 2, 4, 1024};
  Nodes nodes(c);
  Buffers got(c, DataType::kInt32, 5000);
  Emulation emulation = nodes.prepare(got.calls(DataType::kInt32, RedOp::kSum, 5000));
  ASSERT_TRUE(run(emulation, 1));
  const auto first = got.outputs;
  for (uint64_t replay = 2; replay < 4; ++replay) {
    for (auto& output : got.outputs) std::fill(output.begin(), output.end(), std::byte{0});
    ASSERT_TRUE(run(emulation, replay));
    ASSERT_TRUE(got.outputs == first) << "replay " << replay;
    for (int32_t p = 0; p < nodes.gpu().ranks(); ++p) {
      // Every block of every part: they do not end together.
      for (const cuda::Activity& block : nodes.gpu().activity(p)) {
        EXPECT_EQ(block.begun, replay);
        EXPECT_EQ(block.ended, replay);
      }
    }
  }
}

TEST(CudaBridge, OfANodeThatIsCutOffLeavesNoKernelBehind) {
  const Case c{"ring", Collective::kAllReduce, {3, 1}, 1, 2, 512};
  Nodes nodes(c, {.cut_peer = 1, .cut_after_messages = 9}, 50'000'000);
  Buffers buffers(c, DataType::kFloat32, 30'000);
  Emulation emulation = nodes.prepare(buffers.calls(DataType::kFloat32, RedOp::kSum, 30'000));
  ASSERT_TRUE(run(emulation, 1, UINT64_MAX));
  EXPECT_EQ(nodes.abort(), 1U);
  int overdue = 0;
  for (int32_t p = 0; p < 3; ++p) overdue += nodes.gpu().plan(p).outcome().code() == Code::kTimeout;
  EXPECT_GE(overdue, 1);
}

TEST(CudaBridge, ShowsThatAnotherNodeDoesSomethingElse) {
  const Case c{"ring", Collective::kAllReduce, {2, 1}};
  Nodes nodes(c);
  Buffers buffers(c, DataType::kFloat32, 1000);
  std::vector<Call> calls = buffers.calls(DataType::kFloat32, RedOp::kSum, 1000);
  calls[1].op = RedOp::kMax;
  Emulation emulation;
  for (int32_t p = 0; p < 2; ++p)
    emulation.add({nodes.gpu().plan(p).prepare(calls[static_cast<size_t>(p)]).take()});
  nodes.addHosts(emulation);
  ASSERT_TRUE(run(emulation, 1));
  const bool first = nodes.gpu().plan(0).outcome().code() == Code::kInvalidUsage;
  EXPECT_TRUE(first || nodes.gpu().plan(1).outcome().code() == Code::kInvalidUsage);
}

TEST(CudaBridge, GivesTheBitsOfTheHostEngineOnThreads) {
  for (const char* algorithm : {"ring", "ho_ring", "ho_direct"}) {
    Nodes nodes({algorithm, Collective::kAllReduce, {2, 2}, 2, 2, 1024});
    for (const size_t count : {1, 9001}) nodes.expectTheHostsBits(count, -1);
  }
}

}  // namespace
}  // namespace horing
