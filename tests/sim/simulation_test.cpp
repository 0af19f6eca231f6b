// Properties of a simulation that hold for every algorithm on every machine.
#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../sanitizer.h"
#include "schedule/builder.h"
#include "schedule/plan_parameters.h"
#include "schedule/verify.h"
#include "sim/wire_bound.h"
#include "simulated.h"

namespace horing {
namespace {

const Shape kShapes[] = {{1, 2}, {1, 5}, {2, 1}, {2, 4}, {3, 3}, {4, 2}, {8, 2}};

// A machine on which everything costs something.
MachineModel busyMachine() {
  MachineModel machine;
  machine.nic = Owner::kNode;
  machine.between = {7, 1.1, 0.3, 3};
  machine.inside = {1, 5, 0.1, 0};
  machine.memory_gbytes_per_s = 12;
  machine.cores = 1.5;
  machine.step_us = 0.2;
  machine.copy_gbytes_per_s = 9;
  machine.fold_gbytes_per_s = 6;
  return machine;
}

MachineModel burstyMachine() {
  MachineModel machine = busyMachine();
  machine.between.burst_bytes = 100'000;
  return machine;
}

template <typename Visit>
void forEachAlgorithm(const Visit& visit) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (const Collective collective : kEveryCollective) {
      if (!algorithm.has(collective)) continue;
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(formatString("%s %s %d x %d", algorithm.name, collectiveName(collective), shape.groups,
                                  shape.members));
        visit(algorithm.name, collective, shape);
      }
    }
}

TEST(Simulation, IsNeverFasterThanTheWire) {
  const MachineModel machines[] = {burstyMachine(), busyMachine(), MachineModel()};
  forEachAlgorithm([&](const char* algorithm, Collective collective, const Shape& shape) {
    for (MachineModel machine : test::firstUnderSanitizer(1, machines)) {
      machine.nodes = shape.groups;
      machine.ranks_per_node = shape.members;
      // A multiple of what all the chunks are cut to, so that blocks of a rank are not rounded.
      const uint64_t whole = 64 * 120 * 546;
      const SimulationResult result = simulated({algorithm, collective, shape, whole, machine, {}});
      // Memory that everyone reaches in place is on no wire.
      if (findAlgorithm(algorithm)->reachesPeers()) continue;
      EXPECT_GE(result.time, wireBound(collective, static_cast<double>(whole), machine));
    }
  });
}

TEST(Simulation, TakesNoLessForMoreBytes) {
  forEachAlgorithm([](const char* algorithm, Collective collective, const Shape& shape) {
    Picoseconds before = 0;
    for (const uint64_t bytes : {0u, 4096u, 65536u, 500'000u, 2'000'000u}) {
      const Picoseconds time = simulated({algorithm, collective, shape, bytes, busyMachine(), {}}).time;
      EXPECT_GE(time, before) << bytes;
      before = time;
    }
    EXPECT_GT(before, 0);
  });
}

// A plan that the verifier lets pass comes to its end here too, and one that it refuses for its slots does not.
TEST(Simulation, StopsWhereTheVerifierSaysSo) {
  for (const char* algorithm : {"ring", "ho_ring", "ho_ring_direct", "halving_doubling"})
    for (const Collective collective : kSymmetric)
      for (const Shape& shape : {Shape{1, 3}, Shape{2, 3}, Shape{4, 2}})
        for (const int32_t window : {1, 2, 4})
          for (const int32_t slots : {window, window + 1}) {
            PlanParameters parameters;
            parameters.slices = 3 * window;
            parameters.window = {window};
            parameters.slots = slots;
            parameters.scratch_slices = window + 1;
            Pipelining plan;
            plan.window = window;
            plan.slices_per_chunk = parameters.slices;
            plan.slots_inside = plan.slots_between = slots;
            const std::vector<Schedule> all = buildAll(algorithm, collective, shape);
            const Status verdict = verifyProgress(all, parameters);
            const uint64_t bytes = static_cast<uint64_t>(parameters.slices * shape.ranks()) * 64;
            const Result<SimulationResult> result =
                trySimulation({algorithm, collective, shape, bytes, busyMachine(), plan});
            EXPECT_EQ(result.ok(), verdict.ok())
                << algorithm << " " << shape.groups << " x " << shape.members << " window " << window
                << " slots " << slots << ": "
                << (verdict.ok() ? result.status().message() : verdict.message());
            if (!result.ok()) {
              EXPECT_NE(result.status().message().find("wait for each other for ever"), std::string::npos);
            }
          }
}

// A full scratch queue blocks its producer: with W slices of it ranks wait for each other for ever, with W + 1 they do not, and the
// verifier agrees.
TEST(Simulation, HoldsTheProducerOfAFullScratchQueueUp) {
  const std::vector<Schedule> all = buildAll("ho_ring", Collective::kReduceScatter, {4, 3});
  for (const int32_t window : {1, 3})
    for (const int32_t scratch : {1, window, window + 1}) {
      PlanParameters parameters;
      parameters.slices = 3 * window;
      parameters.window = {window};
      parameters.slots = window + 1;
      parameters.scratch_slices = scratch;
      Pipelining plan;
      plan.window = window;
      plan.slices_per_chunk = parameters.slices;
      plan.slots_inside = plan.slots_between = window + 1;
      plan.scratch_slices = scratch;
      const uint64_t bytes = static_cast<uint64_t>(parameters.slices) * 12 * 64;
      const Result<SimulationResult> result =
          trySimulation({"ho_ring", Collective::kReduceScatter, {4, 3}, bytes, busyMachine(), plan});
      EXPECT_EQ(result.ok(), verifyProgress(all, parameters).ok()) << window << " " << scratch;
    }
  // The group's lane runs ahead of the rail's by what scratch holds, so a slow rail sees a longer queue.
  MachineModel machine;
  machine.between = {0, 1, 0, 0};
  machine.inside = {0, 100, 0, 0};
  const auto last_partial = [&](int32_t scratch) {
    Simulated call{"ho_ring",  Collective::kReduceScatter, {4, 2}, 8 * 65536, machine,
                   unsliced(), Record::kEverything};
    call.pipelining.scratch_slices = scratch;
    Picoseconds last = 0;
    for (const SliceRecord& slice : simulated(call).slice_records)
      if (slice.lane_id % 2 == 0) last = std::max(last, slice.end);
    return last;
  };
  EXPECT_GT(last_partial(2), last_partial(3));
}

// A line is idle while the news of free slots travels, unless there are slots enough to fill it meanwhile.
TEST(Simulation, GetsFasterWithCreditsUntilTheLineIsFull) {
  MachineModel machine;
  machine.between = {50, 10, 0, 0};
  Pipelining plan;
  plan.slices_per_chunk = 64;
  Picoseconds before = INT64_MAX;
  const Simulated call{"ring", Collective::kAllGather, {4, 1}, 4 * 64 * 10'000, machine, plan};
  std::vector<Picoseconds> times;
  for (const int32_t slots : {5, 8, 16, 100, 200}) {
    Simulated with = call;
    with.pipelining.slots_between = slots;
    times.push_back(simulated(with).time);
    EXPECT_LE(times.back(), before) << slots;
    before = times.back();
  }
  EXPECT_GT(times[0], 2 * times[3]);
  EXPECT_EQ(times[3], times[4]);
}

// Two ranks that send a chunk to each other, or rank 0 alone: each lane moves in one direction.
std::vector<Schedule> twoWays(bool both) {
  std::vector<Schedule> all;
  for (const int32_t me : {0, 1}) {
    LaneBuilder lanes[2];
    for (const int32_t from : both ? std::vector{0, 1} : std::vector{0}) {
      if (me == from) {
        lanes[from].at(from).read(kInput).send(1 - me);
      } else {
        lanes[from].at(from).recv(1 - me).keep(kOutput);
      }
    }
    Schedule& made = all.emplace_back();
    made.collective = Collective::kAllGather;
    made.position = me;
    made.ranks = 2;
    made.grid = {1, 2};
    made.lanes = {lanes[0].build(), lanes[1].build()};
  }
  return all;
}

// Where data goes one way two slots fill this line. Where it goes both ways, a credit leaves after the messages that wait for the same link.
TEST(Simulation, CreditsWaitForTheMessagesOfTheirLink) {
  Simulated call{"direct", Collective::kAllGather, {2, 1}, 2 * 64 * 10'000, {}, {}};  // 64 messages of 1 us
  call.machine.between = {0.25, 10, 0, 0};
  call.pipelining.slices_per_chunk = call.pipelining.window = 64;
  const auto timeOf = [&](bool both, int32_t slots) {
    call.pipelining.slots_between = slots;
    const std::vector<Schedule> schedules = twoWays(both);
    const Result<SimulationResult> result = simulate(inputOf(call, schedules));
    EXPECT_TRUE(result.ok()) << result.status().toString();
    return result.ok() ? result.value().time : 0;
  };
  EXPECT_EQ(timeOf(false, 2), toPicoseconds(64.25));
  EXPECT_EQ(timeOf(true, 64), toPicoseconds(64.25)) << "no credit is needed";
  EXPECT_GT(timeOf(true, 2), toPicoseconds(64.25 * 1.1));
  EXPECT_LT(timeOf(true, 16), timeOf(true, 2));
}

TEST(Simulation, LinksOfMoreRanksHaveFewerSlots) {
  Pipelining plan;
  EXPECT_EQ(slotsBetween(plan, 4), 32);
  EXPECT_EQ(slotsBetween(plan, 16), 10) << "as 60 MiB allow";
  EXPECT_EQ(slotsBetween(plan, 1024), 8) << "as links inside a node";
  plan.slots_between = 5;
  EXPECT_EQ(slotsBetween(plan, 1024), 5);
}

TEST(Simulation, IsTheSameEveryTime) {
  const Simulated call{"ho_ring", Collective::kAllReduce, {3, 3}, 1'000'000, busyMachine(),
                       {},        Record::kEverything};
  const SimulationResult once = simulated(call), again = simulated(call);
  EXPECT_EQ(once.time, again.time);
  ASSERT_EQ(once.slice_records.size(), again.slice_records.size());
  for (size_t i = 0; i < once.slice_records.size(); ++i) {
    EXPECT_EQ(once.slice_records[i].lane_id, again.slice_records[i].lane_id);
    EXPECT_EQ(once.slice_records[i].end, again.slice_records[i].end);
  }
}

TEST(Simulation, ExecutesEverySliceOfEveryStepOnce) {
  const Shape shape{2, 3};
  Pipelining plan;
  plan.slices_per_chunk = 5;
  const SimulationResult result = simulated({"ho_ring", Collective::kAllGather, shape, 6 * 5 * 64, {}, plan});
  EXPECT_EQ(result.slices_per_chunk, 5);
  EXPECT_EQ(result.slices, 6 * 5 * (2 + 2 * 3));  // steps of the rail, then of a ring of three, for two rows
  EXPECT_EQ(result.messages, 6 * 5 * (1 + 2 * 2));
}

TEST(Simulation, SaysHowBusyTheLinesWere) {
  MachineModel machine;
  machine.between = {0, 10, 0, 0};
  machine.inside = {0, 0, 0, 0};
  const SimulationResult result =
      simulated({"ho_ring", Collective::kAllGather, {4, 2}, 8 * 65536, machine, unsliced()});
  ASSERT_EQ(result.usages.size(), 2u);
  EXPECT_EQ(result.usages[0].name, "NIC out");
  EXPECT_EQ(result.usages[0].count, 8);
  EXPECT_DOUBLE_EQ(result.usages[0].mean, 1);
  EXPECT_DOUBLE_EQ(result.usages[1].busiest, 1);
}

// A ring's all-gather passes M - 1 blocks over each link, so that the slow one takes the whole time.
TEST(Simulation, FollowsTheNodeWhoseLinkIsSlower) {
  MachineModel machine;
  machine.between = {0, 10, 0, 0, 0};
  for (const Owner nic : {Owner::kNode, Owner::kRank}) {
    machine.nic = nic;
    const Simulated call{"ring", Collective::kAllGather, {4, 1}, 4 * 65536, machine, unsliced()};
    const std::vector<Schedule> schedules = buildAll(call.algorithm, call.collective, call.shape);
    SimulationInput input = inputOf(call, schedules);
    EXPECT_EQ(simulate(input).value().time, 3 * 65536 * 100);
    for (const LinkParts slow : {LinkParts{0.5, 1}, LinkParts{1, 0.5}}) {
      const std::vector<LinkParts> parts = {{}, {}, slow, {}};
      input.machine.link_parts = parts;
      EXPECT_EQ(simulate(input).value().time, 2 * 3 * 65536 * 100);
    }
  }
}

TEST(Simulation, RefusesWhatIsOutOfRange) {
  const std::vector<Schedule> all = buildAll("ring", Collective::kAllReduce, {2, 2});
  const Simulated wanted{"ring", Collective::kAllReduce, {2, 2}, 4096, {}, {}};
  const auto refused = [&](const char* message, const auto& change) {
    SimulationInput input = inputOf(wanted, all);
    change(input);
    const Result<SimulationResult> result = simulate(input);
    ASSERT_FALSE(result.ok()) << message;
    EXPECT_NE(result.status().message().find(message), std::string::npos) << result.status().message();
  };
  refused("cannot run", [](SimulationInput& input) { input.machine.nodes = 4; });
  refused("out of range", [](SimulationInput& input) { input.pipelining.window = 0; });
  refused("out of range", [](SimulationInput& input) { input.pipelining.slots_between = -1; });
  refused("out of range", [](SimulationInput& input) { input.count = SIZE_MAX; });
  refused("3 schedules for 4 ranks",
          [&](SimulationInput& input) { input.schedules = input.schedules.first(3); });
  refused("more than can be simulated", [](SimulationInput& input) {
    input.count = size_t{1} << 49;
    input.pipelining.slices_per_chunk = kMaxSlices;
    input.pipelining.window = 1;
    static const std::vector<Schedule> huge = [] {
      std::vector<Schedule> copy = buildAll("ring", Collective::kAllReduce, {2, 2});
      for (Block& block : copy[0].lanes[0].blocks) block.count = 1 << 14;
      return copy;
    }();
    input.schedules = huge;
  });
  refused("1 parts of the links of 2 nodes", [](SimulationInput& input) { input.machine.link_parts = {{}}; });
  refused("expected one above 0", [](SimulationInput& input) { input.machine.link_parts = {{}, {0, 1}}; });
  std::vector<Schedule> wrong = all;
  wrong[1].lanes[0].blocks[0].body[0].send_to = 17;
  refused("does not exist", [&](SimulationInput& input) { input.schedules = wrong; });
}

}  // namespace
}  // namespace horing
