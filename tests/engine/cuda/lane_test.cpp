// The interpreter for GPUs, run on the host: the same bits as the host engine gives for the same schedules on groups of one size.
#include "engine/cuda/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "../../sanitizer.h"
#include "collective_case.h"
#include "emulation.h"
#include "gpu_world.h"
#include "world.h"

namespace horing {
namespace {

using test::Buffers;
using test::Case;
using test::Emulation;
using test::everyAlgorithm;
using test::GpuWorld;
using test::HostMemory;
using test::text;

class Ranks {
 public:
  // `threads`: of a block.
  explicit Ranks(const Case& c, uint64_t timeout_ns = UINT64_MAX, uint32_t threads = 3)
      : case_(c),
        threads_(threads),
        gpu_(GpuWorld::make({c.algorithm,
                             c.collective,
                             c.shape,
                             0,
                             {c.parts, c.window, c.slot_bytes, 512, timeout_ns, c.isOneLaunch()},
                             static_cast<uint32_t>(c.window) + 1},
                            memory_, &abort_)
                 .take()),
        host_({.algorithm = c.algorithm, .collective = c.collective, .shape = c.shape, .slots = 9}) {}

  Emulation prepare(const std::vector<Call>& calls) {
    std::vector<cuda::LaneCall> ready;
    for (int32_t p = 0; p < gpu_->ranks(); ++p) {
      auto made = gpu_->plan(p).prepare(calls[static_cast<size_t>(p)]);
      EXPECT_TRUE(made.ok()) << made.status().toString();
      ready.push_back(made.take());
    }
    Emulation emulation;
    const auto add = [&](const std::vector<cuda::LaneCall>& of_ranks) {
      test::Launch launch(of_ranks, calls[0].type, calls[0].op);
      launch.threads = threads_;
      emulation.add(launch);
    };
    if (case_.isOneLaunch()) {
      add(ready);
    } else {
      for (const cuda::LaneCall& call : ready) add({call});
    }
    return emulation;
  }

  // One call; in the order of a seed, or with threads of the system.
  void expectTheHostsBits(size_t count, DataType type, RedOp op, int64_t seed) {
    Buffers got(case_, type, count), expected(case_, type, count);
    run(got.calls(type, op, count), seed);
    ASSERT_TRUE(host_.run(expected.calls(type, op, count)));
    for (size_t p = 0; p < got.outputs.size(); ++p)
      ASSERT_TRUE(got.outputs[p] == expected.outputs[p])
          << text(case_) << ", count " << count << " of " << dataTypeName(type) << ", position " << p;
  }

  // The same in place: the smaller buffer is the rank's own block of the larger one.
  void expectThemInPlace(size_t count, DataType type, RedOp op, int64_t seed) {
    Buffers got(case_, type, count), expected(case_, type, count);
    std::vector<Call> calls = got.calls(type, op, count);
    for (size_t p = 0; p < calls.size(); ++p) {
      auto &in = got.inputs[p], &out = got.outputs[p];
      const size_t own = in.size() == out.size() ? 0 : p * std::min(in.size(), out.size());
      if (in.size() > out.size()) {
        calls[p].output = in.data() + own;
      } else {
        std::copy(in.begin(), in.end(), out.begin() + static_cast<ptrdiff_t>(own));
        calls[p].input = out.data() + own;
      }
    }
    run(calls, seed);
    ASSERT_TRUE(host_.run(expected.calls(type, op, count)));
    const Contract contract = contractOf(case_.collective);
    for (size_t p = 0; p < calls.size(); ++p) {
      if (contract.out == ChunkSet::kEveryAtRoot && p != 0) continue;
      ASSERT_TRUE(std::equal(expected.outputs[p].begin(), expected.outputs[p].end(), calls[p].output))
          << text(case_) << ", count " << count << " of " << dataTypeName(type) << " in place, position "
          << p;
    }
  }

  void run(const std::vector<Call>& calls, int64_t seed) {
    Emulation emulation = prepare(calls);
    if (seed >= 0) {
      ASSERT_TRUE(emulation.runSeeded(static_cast<uint64_t>(seed)))
          << text(case_) << ", count " << calls[0].count << " hangs";
    } else {
      emulation.runThreads();
    }
    for (int32_t p = 0; p < gpu_->ranks(); ++p)
      ASSERT_TRUE(gpu_->plan(p).outcome().ok()) << text(case_) << ": " << gpu_->plan(p).outcome().toString();
  }

  GpuWorld& gpu() { return *gpu_; }
  uint32_t& abort() { return abort_; }

 private:
  Case case_;
  uint32_t threads_;
  HostMemory memory_;
  uint32_t abort_ = 0;
  std::unique_ptr<GpuWorld> gpu_;
  World host_;
};

// Fibers switch stacks behind ThreadSanitizer's back.
#if !defined(HORING_TEST_TSAN)
TEST(CudaLane, GivesTheBitsOfTheHostEngineForEveryAlgorithm) {
  for (Case c : everyAlgorithm({{1, 1}, {1, 3}, {2, 2}, {2, 3}, {2, 4}})) {
    Ranks ranks(c);
    for (const size_t count : {0, 1, 37, 3000}) {
      ranks.expectTheHostsBits(count, DataType::kFloat32, RedOp::kSum, 1);
      if (contractOf(c.collective).may_be_in_place)
        ranks.expectThemInPlace(count, DataType::kFloat32, RedOp::kSum, 2);
    }
  }
}

TEST(CudaLane, GivesThemInAnyOrderOfItsThreads) {
  for (const char* algorithm : {"ring", "ho_ring", "ho_direct", "peer_read", "peer_write"})
    for (int64_t seed = 0; seed < 12; ++seed) {
      Ranks ranks({algorithm, Collective::kAllReduce, {2, 2}, 2, 2, 512});
      ranks.expectTheHostsBits(9001, DataType::kFloat32, RedOp::kSum, seed);
    }
  // Other threads look after a port than in the step before (AsksForBarriersWherePortsChangeHands).
  for (int64_t seed = 0; seed < 12; ++seed) {
    Ranks ranks({"ho_ring", Collective::kReduceScatter, {2, 4}, 2, 2, 512});
    ranks.expectTheHostsBits(2001, DataType::kFloat32, RedOp::kSum, seed);
  }
}

TEST(CudaLane, CutsChunksIntoPartsAndWindows) {
  for (const int32_t parts : {1, 2, 5})
    for (const int32_t window : {1, 3})
      for (const char* algorithm : {"ring", "ho_ring"}) {
        Ranks ranks({algorithm, Collective::kAllReduce, {2, 2}, parts, window, 2048});
        ranks.expectTheHostsBits(70001, DataType::kInt8, RedOp::kMax, 5);
      }
}

// Integers: kernels cut the parts of blocks at other elements than hosts, so that floats near a cut are folded in another order.
TEST(CudaLane, RunsGroupsOfDifferentSizes) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (int collective = 0; algorithm.any_sizes && collective < kCollectives; ++collective)
      for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{4, 3}, {1, 3}, {5, 2, 1}, {2, 3, 2}}) {
        const Case c{algorithm.name, static_cast<Collective>(collective), Shape::of(sizes), 2, 3, 512};
        if (!algorithm.has(c.collective)) continue;
        Ranks ranks(c);
        for (const size_t count : {0, 1, 130, 3000}) {
          ranks.expectTheHostsBits(count, DataType::kInt32, RedOp::kSum, 1);
          if (contractOf(c.collective).may_be_in_place)
            ranks.expectThemInPlace(count, DataType::kInt32, RedOp::kSum, 2);
        }
      }
}

// What runs at once, by crews of one thread or two.
TEST(CudaLane, RunsStepsAtOnce) {
  for (const char* algorithm : {"direct", "one_shot", "star", "ho_ring_direct", "ho_leaders"})
    for (const Shape& shape : {Shape{1, 6}, Shape{2, 5}})
      for (const uint32_t threads : {3U, 4U})
        for (const RedOp op : {RedOp::kSum, RedOp::kAvg}) {
          Ranks ranks({algorithm, Collective::kAllReduce, shape, 2, 2, 512}, UINT64_MAX, threads);
          ranks.expectTheHostsBits(2001, DataType::kFloat32, op, threads);
          ranks.expectThemInPlace(2001, DataType::kFloat32, op, threads + 1);
        }
}

// More steps and sources of a lane than LaneShared has.
TEST(CudaLane, RunsLanesLargerThanWhatBlocksKeepNear) {
  for (const auto& [algorithm, members] : {std::pair{"ring", 33}, {"one_shot", 66}}) {
    Ranks ranks({algorithm, Collective::kAllReduce, {1, members}, 1, 1, 512});
    ranks.expectTheHostsBits(200, DataType::kFloat32, RedOp::kSum, 3);
  }
}

TEST(CudaLane, HasNoMoreQueuesThanABlockKeeps) {
  HostMemory memory;
  uint32_t abort = 0;
  const auto made = GpuWorld::make({.algorithm = "one_shot", .shape = {1, 130}}, memory, &abort);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kInvalidUsage);
  EXPECT_NE(made.status().message().find("258 queues"), std::string::npos) << made.status().toString();
}

TEST(CudaLane, MultipliesByAScalarThatItReadsItself) {
  for (const char* algorithm : {"ring", "ho_ring"})
    for (const DataType type : {DataType::kFloat32, DataType::kInt32, DataType::kInt8}) {
      Ranks ranks({algorithm, Collective::kAllReduce, {2, 2}});
      ranks.expectTheHostsBits(3000, type, RedOp::kPreMulSum, 1);
    }
}

// Calls of one launch come by rank, and schedules name positions.
TEST(CudaLane, FindsTheBuffersOfRanksInAnotherOrder) {
  const Case c{"peer_write", Collective::kAllReduce, {1, 3}};
  const std::vector<int32_t> rank_of_position{2, 0, 1};
  HostMemory memory;
  uint32_t abort = 0;
  const auto world = GpuWorld::make({.algorithm = c.algorithm,
                                     .shape = c.shape,
                                     .plan = {.in_one_launch = true},
                                     .rank_of_position = rank_of_position},
                                    memory, &abort)
                         .take();
  constexpr size_t kCount = 3000;
  Buffers got(c, DataType::kFloat32, kCount), expected(c, DataType::kFloat32, kCount);
  const std::vector<Call> calls = got.calls(DataType::kFloat32, RedOp::kSum, kCount);
  std::vector<cuda::LaneCall> by_rank(3);
  for (int32_t p = 0; p < 3; ++p)
    by_rank[static_cast<size_t>(rank_of_position[static_cast<size_t>(p)])] =
        world->plan(p).prepare(calls[static_cast<size_t>(p)]).take();
  Emulation emulation;
  emulation.add({by_rank, DataType::kFloat32, RedOp::kSum});
  ASSERT_TRUE(emulation.runSeeded(1));
  test::expectHostResults(c, expected, DataType::kFloat32, RedOp::kSum, kCount);
  EXPECT_TRUE(got.outputs == expected.outputs);
}

// As the replays of a graph: the same launches repeatedly, without calls of the host in between.
TEST(CudaLane, RunsTheSameLaunchAgain) {
  const Case c{"ho_ring", Collective::kAllReduce, {2, 2}, 2, 4, 1024};
  Ranks ranks(c);
  Buffers got(c, DataType::kInt32, 5000);
  Emulation emulation = ranks.prepare(got.calls(DataType::kInt32, RedOp::kSum, 5000));
  ASSERT_TRUE(emulation.runSeeded(1));
  const auto first = got.outputs;
  for (uint64_t replay = 2; replay < 6; ++replay) {
    for (auto& output : got.outputs) std::fill(output.begin(), output.end(), std::byte{0});
    ASSERT_TRUE(emulation.runSeeded(replay));
    ASSERT_TRUE(got.outputs == first) << "replay " << replay;
  }
}

TEST(CudaLane, GivesUpWhenTold) {
  Ranks ranks({"ring", Collective::kAllReduce, {1, 3}});
  Buffers buffers({"ring", Collective::kAllReduce, {1, 3}}, DataType::kFloat32, 1000);
  std::vector<Call> calls = buffers.calls(DataType::kFloat32, RedOp::kSum, 1000);
  Emulation alone;
  alone.add({ranks.gpu().plan(0).prepare(calls[0]).take()});
  ranks.abort() = 1;
  ASSERT_TRUE(alone.runSeeded(1));
  const Status outcome = ranks.gpu().plan(0).outcome();
  EXPECT_EQ(outcome.code(), Code::kRemoteError);
  EXPECT_NE(outcome.message().find("waited for the rank at position"), std::string::npos)
      << outcome.message();
}

TEST(CudaLane, NoticesThatAnotherRankDoesSomethingElse) {
  const Case c{"ring", Collective::kAllReduce, {1, 2}};
  Ranks ranks(c);
  Buffers buffers(c, DataType::kFloat32, 1000);
  Emulation emulation;
  std::vector<Call> calls = buffers.calls(DataType::kFloat32, RedOp::kSum, 1000);
  calls[1].op = RedOp::kMax;
  for (int32_t p = 0; p < 2; ++p)
    emulation.add({ranks.gpu().plan(p).prepare(calls[static_cast<size_t>(p)]).take()});
  ASSERT_TRUE(emulation.runSeeded(1));
  // Who notices first ends the other.
  EXPECT_EQ(ranks.abort(), 1U);
  const Status outcomes[] = {ranks.gpu().plan(0).outcome(), ranks.gpu().plan(1).outcome()};
  const int first = outcomes[0].code() == Code::kInvalidUsage ? 0 : 1;
  EXPECT_EQ(outcomes[first].code(), Code::kInvalidUsage);
  EXPECT_NE(outcomes[first].message().find(
                formatString("another operation from the rank at position %d", 1 - first)),
            std::string::npos)
      << outcomes[first].message();
  // Its label is asked late, but before anything is handed on.
  EXPECT_EQ(*ranks.gpu().sendingEnd(1 - first, first).theirs, 0U) << "it took the message for its own";
}

// One crew gives up, the others continue or end, and so does the block.
TEST(CudaLane, GivesUpWhereStepsRunAtOnce) {
  const Case c{"direct", Collective::kAllGather, {1, 5}};
  Buffers buffers(c, DataType::kFloat32, 100);
  const std::vector<Call> calls = buffers.calls(DataType::kFloat32, RedOp::kSum, 100);
  for (const uint32_t threads : {3U, 4U}) {
    Ranks late(c, 0, threads), foreign(c, UINT64_MAX, threads);
    Emulation alone;
    alone.add({late.gpu().plan(0).prepare(calls[0]).take()});
    ASSERT_TRUE(alone.runSeeded(threads));
    EXPECT_EQ(late.gpu().plan(0).outcome().code(), Code::kTimeout);

    std::vector<Call> others = calls;
    others[4].type = DataType::kInt32;
    ASSERT_TRUE(foreign.prepare(others).runSeeded(threads));
    EXPECT_EQ(foreign.abort(), 1U);
    const Status outcome = foreign.gpu().plan(4).outcome();
    EXPECT_EQ(outcome.code(), Code::kInvalidUsage) << outcome.toString();
    EXPECT_NE(outcome.message().find("another operation from the rank at position"), std::string::npos);
  }
}

TEST(CudaLane, WaitsNoLongerThanItMay) {
  Ranks ranks({"ring", Collective::kAllReduce, {1, 3}}, 0);
  Buffers buffers({"ring", Collective::kAllReduce, {1, 3}}, DataType::kFloat32, 1000);
  const std::vector<Call> calls = buffers.calls(DataType::kFloat32, RedOp::kSum, 1000);
  Emulation alone;
  alone.add({ranks.gpu().plan(0).prepare(calls[0]).take()});
  ASSERT_TRUE(alone.runSeeded(1));
  const Status outcome = ranks.gpu().plan(0).outcome();
  EXPECT_EQ(outcome.code(), Code::kTimeout);
  EXPECT_NE(outcome.message().find("waited 0 ms for "), std::string::npos) << outcome.message();
  EXPECT_EQ(ranks.abort(), 1U) << "the other ranks wait on";
}

// Lanes that wait for no peer continue with the next replay; the number they then report is not that of the failed one.
TEST(CudaLane, SaysWhichRunItGaveUpAlsoWhenTheNextHasBegun) {
  const Case c{"ring", Collective::kAllReduce, {1, 3}};
  Ranks ranks(c, 1'000'000'000);
  Buffers buffers(c, DataType::kFloat32, 1000);
  const std::vector<Call> calls = buffers.calls(DataType::kFloat32, RedOp::kSum, 1000);
  Emulation together = ranks.prepare(calls), alone;
  for (uint64_t run = 0; run < 2; ++run) ASSERT_TRUE(together.runSeeded(run));
  alone.add({ranks.gpu().plan(0).prepare(calls[0]).take()});
  ranks.abort() = 1;
  for (uint64_t replay = 0; replay < 3; ++replay) ASSERT_TRUE(alone.runSeeded(replay));
  cuda::Failure where;
  EXPECT_EQ(ranks.gpu().plan(0).outcome(&where).code(), Code::kRemoteError);
  EXPECT_EQ(where.run, 2U);
}

// Otherwise later messages would overwrite slots that a peer has not read yet.
TEST(CudaLane, LeavesNothingToThoseBehindOneThatGaveUp) {
  const Case c{"ring", Collective::kAllReduce, {1, 3}};
  Ranks ranks(c);
  Buffers buffers(c, DataType::kFloat32, 9000);
  const std::vector<Call> calls = buffers.calls(DataType::kFloat32, RedOp::kSum, 9000);
  const auto launch = [&] {
    Emulation alone;
    alone.add({ranks.gpu().plan(0).prepare(calls[0]).take()});
    ASSERT_TRUE(alone.runSeeded(1));
  };
  ranks.abort() = 1;
  launch();
  const cuda::Port& sent = ranks.gpu().sendingEnd(0, 1);
  const uint64_t count = *sent.mine;
  EXPECT_GT(count, 0U) << "it gave up before it had sent anything";
  EXPECT_EQ(sent.count, count);
  ranks.abort() = 0;
  launch();
  EXPECT_EQ(*sent.mine, count);
}
#endif

TEST(CudaLane, GivesTheBitsOfTheHostEngineOnThreads) {
  for (const char* algorithm : {"ring", "ho_ring", "ho_direct", "peer_read", "peer_write"}) {
    Ranks ranks({algorithm, Collective::kAllReduce, {2, 2}, 2, 2, 1024});
    for (const size_t count : {1, 9001}) ranks.expectTheHostsBits(count, DataType::kFloat32, RedOp::kSum, -1);
  }
}

TEST(CudaLane, RunsStepsAtOnceOnThreads) {
  for (const char* algorithm : {"direct", "one_shot", "star"}) {
    Ranks ranks({algorithm, Collective::kAllReduce, {1, 5}, 1, 2, 1024}, UINT64_MAX, 4);
    ranks.expectTheHostsBits(3001, DataType::kFloat32, RedOp::kSum, -1);
    ranks.expectThemInPlace(3001, DataType::kFloat32, RedOp::kSum, -1);
  }
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    Ranks ranks({"direct", collective, {1, 5}, 1, 2, 1024}, UINT64_MAX, 4);
    ranks.expectTheHostsBits(601, DataType::kFloat32, RedOp::kSum, -1);
    ranks.expectThemInPlace(601, DataType::kFloat32, RedOp::kSum, -1);
  }
}

// Cut in more it would take longer; down a tree slices are on their way at once.
TEST(CudaCall, IsCutWhereSlotsWantItOnly) {
  struct {
    const char* algorithm;
    Collective collective;
    size_t count;
    int32_t slices;
  } const cases[] = {{"ring", Collective::kAllReduce, 16384 * 2, 1},
                     {"ring", Collective::kAllReduce, 16384 * 2 + 64, 2},
                     {"ring", Collective::kAllReduce, 16384 * 2 * 3, 3},
                     {"chain", Collective::kBroadcast, 4096, 1},
                     {"chain", Collective::kBroadcast, 32768, 4}};
  for (const auto& c : cases) {
    const auto ranks =
        Case{.algorithm = c.algorithm, .collective = c.collective, .shape = {1, 2}, .slot_bytes = 65536};
    Call call;
    call.count = c.count;
    const auto prepared = Ranks(ranks).gpu().plan(0).prepare(call);
    ASSERT_TRUE(prepared.ok()) << prepared.status().toString();
    EXPECT_EQ(prepared.value().slices, c.slices) << text(ranks) << ", count " << c.count;
  }
}

// Whatever the size, the parts of a block follow each other without a gap, and none is larger than expected.
TEST(CudaImage, CutsBlocksIntoParts) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
    const Rails rails(std::vector<int32_t>{4, 3});
    const Schedule schedule = buildSchedule("ho_ring", collective, Shape::of(rails.sizes()), 0).take();
    const std::vector<int32_t> ranks = {0, 1, 2, 3, 4, 5, 6};
    const cuda::PlanImage image = cuda::PlanImage::make(schedule, ranks, {});
    std::map<int32_t, std::map<uint16_t, uint16_t>> parts;  // of each block, begin and end
    for (const cuda::ImageLane& lane : image.lanes)
      for (const cuda::ImageStep& step : lane.steps)
        parts[step.output_block[0]][step.of_block.begin] = step.of_block.end;
    EXPECT_EQ(parts.size(), collective == Collective::kAllReduce ? 2u : 7u);
    size_t all = 0;
    for (const auto& [block, of_block] : parts) {
      all += of_block.size();
      for (const size_t count : {0, 1, 64, 1000, 100003}) {
        size_t reached = 0;
        for (const auto& [begin, end] : of_block) {
          EXPECT_EQ(cuda::BlockPart::before(count, begin), reached);
          const size_t elements = cuda::BlockPart::before(count, end) - reached;
          EXPECT_LE(elements, cuda::BlockPart::most(count, image.widest_part));
          reached += elements;
        }
        EXPECT_EQ(reached, count);
      }
    }
    EXPECT_EQ(all, 12u) << "2 groups of 6 pieces";
  }
}

cuda::PlanImage imageOf(const char* algorithm, Collective collective, const Shape& shape,
                        int32_t position = 0) {
  const Schedule schedule = buildSchedule(algorithm, collective, shape, position).take();
  std::vector<int32_t> ranks(static_cast<size_t>(schedule.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return cuda::PlanImage::make(schedule, ranks, {});
}

// Elements of each part, over all steps of a rank.
std::vector<size_t> loadsOf(const cuda::LaneCall& call, const cuda::PlanImage& image) {
  std::vector<size_t> loads(static_cast<size_t>(call.used_parts));
  for (const cuda::ImageLane& lane : image.lanes)
    for (const cuda::ImageStep& step : lane.steps) {
      const size_t count = call.sizes.range(step.output_block[0], step.of_block).count;
      size_t reached = 0;
      for (int32_t part = 0; part < call.used_parts; ++part) {
        const ElementRange range = cuda::PartCut::range(count, call.sizes.partOf(count), part);
        EXPECT_EQ(range.offset, reached);
        EXPECT_LE(range.count, call.sizes.part);
        reached += range.count;
        loads[static_cast<size_t>(part)] += range.count;
      }
      EXPECT_EQ(reached, count);
    }
  return loads;
}

TEST(CudaCall, GivesEachPartItsShareOfChunksThatDifferInSize) {
  constexpr size_t kCount = 6 << 20;
  for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{4, 3}, {5, 2, 1}, {8, 7}, {2, 2, 2, 1}})
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather})
      for (const int32_t parts : {3, 16}) {
        const Case c{"ho_ring", collective, Shape::of(sizes), parts, 4, 65536};
        Ranks ranks(c);
        Call call;
        call.count = kCount;
        for (int32_t position = 0; position < c.shape.ranks(); ++position) {
          const cuda::LaneCall ready = ranks.gpu().plan(position).prepare(call).take();
          ASSERT_EQ(ready.used_parts, parts);
          const std::vector<size_t> loads = loadsOf(ready, imageOf("ho_ring", collective, c.shape, position));
          const auto all = static_cast<double>(std::accumulate(loads.begin(), loads.end(), size_t{0}));
          EXPECT_LE(static_cast<double>(std::ranges::max(loads)), 1.1 * all / parts) << text(c);
          EXPECT_GE(static_cast<double>(std::ranges::min(loads)), 0.9 * all / parts) << text(c);
        }
      }
}

TEST(CudaCall, CutsChunksOfOneSizeAlike) {
  Ranks ranks({"ho_ring", Collective::kAllReduce, {2, 3}, 16, 4, 65536});
  Call call;
  call.count = 6 * 100'000 + 1;
  const cuda::LaneCall ready = ranks.gpu().plan(0).prepare(call).take();
  for (const size_t count : {size_t{0}, size_t{1}, size_t{5000}, ready.sizes.block})
    EXPECT_EQ(ready.sizes.partOf(count), ready.sizes.part);
}

// The number of parts is divided by without a division.
TEST(CudaCall, CutsChunksIntoTheFewestUnitsThatSuffice) {
  constexpr size_t kUnit = cuda::PartCut::kUnit;
  for (int32_t parts = 1; parts <= cuda::kMaxParts; ++parts) {
    const cuda::ChunkSizes sizes{.part = SIZE_MAX, .inverse_parts = cuda::ChunkSizes::inverse(parts)};
    for (const size_t units : {1, 2, 3, 15, 16, 17, 63, 64, 65, 1000, 123457, 1 << 25})
      for (const size_t less : {size_t{0}, size_t{1}, kUnit - 1})
        EXPECT_EQ(sizes.partOf(units * kUnit - less), quotientUp(units, static_cast<size_t>(parts)) * kUnit)
            << units << " units in " << parts << " parts";
  }
}

TEST(CudaImage, FindsStepsThatMayRunAtOnce) {
  const auto concurrent = [](const char* algorithm, Collective collective, const Shape& shape) {
    std::vector<int32_t> found;
    const cuda::PlanImage image = imageOf(algorithm, collective, shape);
    for (const cuda::ImageLane& lane : image.lanes)
      for (size_t s = 0; s < lane.steps.size(); s += static_cast<size_t>(lane.steps[s].concurrent_steps))
        found.push_back(lane.steps[s].concurrent_steps);
    return found;
  };
  using Steps = std::vector<int32_t>;
  // The sends to all peers; the fold of their messages; the sends of the result, and the receives.
  EXPECT_EQ(concurrent("direct", Collective::kAllReduce, {1, 8}), (Steps{7, 1, 14}));
  // The first step leaves the value that the other steps send.
  EXPECT_EQ(concurrent("one_shot", Collective::kAllReduce, {1, 8}), (Steps{1, 6, 1}));
  // Each sends on what the one before has brought.
  EXPECT_EQ(concurrent("ring", Collective::kAllGather, {1, 4}), (Steps{1, 1, 1, 1}));
  // In place the own block is where the output has it, and the first step leaves it there.
  EXPECT_EQ(concurrent("direct", Collective::kAllGather, {1, 8}), (Steps{1, 13}));
}

// Of each lane a text: a barrier before the step (|), or none (.), where others than before look after one of its ports.
TEST(CudaImage, AsksForBarriersWherePortsChangeHands) {
  const auto barriers = [](const char* algorithm, Collective collective, const Shape& shape) {
    std::vector<std::string> found;
    const cuda::PlanImage image = imageOf(algorithm, collective, shape);
    for (const cuda::ImageLane& lane : image.lanes) {
      std::string& text = found.emplace_back();
      for (size_t s = 0; s < lane.steps.size(); s += static_cast<size_t>(lane.steps[s].concurrent_steps))
        text += lane.steps[s].needs_barrier ? '|' : '.';
    }
    return found;
  };
  using Lanes = std::vector<std::string>;
  EXPECT_EQ(barriers("serial_ring", Collective::kAllReduce, {1, 4}), (Lanes{"......."}));
  // What another lane has left is the first of two sources, and then the second.
  EXPECT_EQ(barriers("ho_ring", Collective::kReduceScatter, {2, 4}), (Lanes{"........", ".|"}));
  // Before crews, unless they are the first; they end with one.
  EXPECT_EQ(barriers("direct", Collective::kAllReduce, {1, 8}), (Lanes{"..", "."}));
  EXPECT_EQ(barriers("one_shot", Collective::kAllReduce, {1, 8}), (Lanes{".|."}));
}

TEST(CudaCall, RefusesAFactorOfEachRankWhereOneFoldsAllInputs) {
  Ranks ranks({"peer_write", Collective::kAllReduce, {1, 2}});
  Call call;
  call.op = RedOp::kPreMulSum;
  EXPECT_EQ(ranks.gpu().plan(0).prepare(call).status().code(), Code::kInvalidArgument);
}

TEST(CudaPlan, RefusesToReachForBuffersOfOtherLaunches) {
  HostMemory memory;
  uint32_t abort = 0;
  for (const char* algorithm : {"peer_read", "peer_write"}) {
    const auto world = GpuWorld::make({.algorithm = algorithm, .shape = {1, 2}}, memory, &abort);
    EXPECT_EQ(world.status().code(), Code::kInvalidArgument) << algorithm;
  }
}

TEST(CudaCall, RefusesWhatKernelsHaveNoTablesFor) {
  Ranks ranks({"ring", Collective::kAllGather, {1, 2}});
  Call call;
  call.uneven = true;
  EXPECT_EQ(ranks.gpu().plan(0).prepare(call).status().code(), Code::kInvalidArgument);
  const int32_t blocks[] = {1, 0};
  call.uneven = false;
  call.block_of_position = blocks;
  EXPECT_EQ(ranks.gpu().plan(0).prepare(call).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace horing
