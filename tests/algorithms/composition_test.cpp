// The premises of the proof of ho_ring at any size (src/algorithms/README.md): its lanes are those of two flat rings, which
// the verifier proves, with other names for chunks and peers.
#include <gtest/gtest.h>

#include "../schedule/build_all.h"
#include "schedule/verify.h"

namespace horing {
namespace {

// A step with its real chunk numbers, not those of its block.
using Steps = std::vector<Step>;

Steps unrolled(const Schedule& schedule, size_t lane) {
  Steps steps;
  for (StepCursor at(schedule.lanes[lane], schedule.grid); !at.done(); at.next()) {
    Step step = at.step();
    step.chunk = at.chunk();
    step.wait.step = at.waitStep();
    step.wait.stride = 0;
    steps.push_back(step);
  }
  return steps;
}

Schedule scheduleOf(const char* algorithm, Collective collective, const Shape& shape, int32_t position) {
  Result<Schedule> built = buildSchedule(algorithm, collective, shape, position);
  EXPECT_TRUE(built.ok()) << built.status().message();
  return built.ok() ? built.take() : Schedule();
}

struct Place {
  int32_t group = 0, index = 0;
};
Place placeOf(const Shape& shape, int32_t position) {
  return {position / shape.members, position % shape.members};
}

// Lanes of an all-reduce; the others have two of them.
enum HoLane : size_t { kInnerReduce, kOuterReduce, kOuterGather, kInnerGather };

// A step after renaming, without its waits, which are checked separately.
template <typename Rename>
Step renamed(Step step, const Rename& rename) {
  step.chunk = rename(step.chunk);
  if (step.send_to >= 0) step.send_to = rename(step.send_to);
  for (Source& source : step.sources)
    if (source.kind == Source::Kind::kRecv) source.index = rename(source.index);
  step.wait = {};
  return step;
}

Step withoutWait(Step step) {
  step.wait = {};
  return step;
}

// An outer lane is a ring of groups along the rail; of a reduction, it folds the group's partial where the ring has its input.
Steps railOf(Collective collective, const Shape& shape, Place me, bool reduces) {
  const Schedule ring = scheduleOf("ring", collective, {1, shape.groups}, me.group);
  const bool is_all_reduce = collective == Collective::kAllReduce;
  Steps steps = unrolled(ring, is_all_reduce && !reduces ? 1 : 0);
  for (Step& step : steps) {
    step = renamed(step, [&](int32_t group) { return group * shape.members + me.index; });
    for (Source& source : step.sources)
      if (reduces && source.kind == Source::Kind::kIn)
        source = is_all_reduce ? Source{Source::Kind::kOut, 0} : Source{Source::Kind::kScratch, 0};
  }
  return steps;
}

// An inner lane is a ring of members for each row. It gathers what is in the output already, as all-reduce does; of a reduction, it
// leaves the group's partial where the rail takes it.
Steps rowOf(Collective collective, const Shape& shape, Place me, int32_t row) {
  const bool gathers = collective == Collective::kAllGather;
  const Schedule ring = scheduleOf("ring", Collective::kAllReduce, {1, shape.members}, me.index);
  Steps steps = unrolled(ring, gathers ? 1 : 0);
  for (Step& step : steps) {
    step = renamed(step, [&](int32_t member) { return me.group * shape.members + member; });
    step.chunk += (row - me.group) * shape.members;
    if (gathers || step.keep.kind == Keep::Kind::kNone) continue;
    step.completes = false;
    if (collective == Collective::kReduceScatter) step.keep = {Keep::Kind::kScratch, 0};
  }
  return steps;
}

// Rows as the outer ring comes to them: i-1, i-2, ..., i when it reduces, i, i-1, ..., i+1 when it gathers.
std::vector<int32_t> rowsOf(const Shape& shape, int32_t group, bool reduces) {
  std::vector<int32_t> rows;
  for (int32_t k = 0; k < shape.groups; ++k)
    rows.push_back((group - k - (reduces ? 1 : 0) + 2 * shape.groups) % shape.groups);
  return rows;
}

void expectRail(const Steps& lane, const Steps& rail) {
  ASSERT_EQ(lane.size(), rail.size());
  for (size_t s = 0; s < lane.size(); ++s) ASSERT_EQ(withoutWait(lane[s]), rail[s]) << "step " << s;
}

void expectRows(const Steps& lane, Collective collective, const Shape& shape, Place me, bool reduces) {
  size_t s = 0;
  for (const int32_t row : rowsOf(shape, me.group, reduces))
    for (const Step& step : rowOf(collective, shape, me, row)) {
      ASSERT_LT(s, lane.size());
      ASSERT_EQ(withoutWait(lane[s]), step) << "row " << row << ", step " << s;
      ++s;
    }
  EXPECT_EQ(s, lane.size());
}

// An inner lane gathers a row once the rail has brought, or reduced, the own chunk of it; and waits for nothing else.
void expectWaitsForRail(const Schedule& schedule, size_t inner, size_t outer, Place me, const Shape& shape) {
  const bool reduces_first = outer == kOuterGather;
  for (const Step& step : unrolled(schedule, inner)) {
    const bool is_own = step.chunk % shape.members == me.index && step.sources[0].kind == Source::Kind::kOut;
    ASSERT_EQ(step.wait.lane >= 0, is_own);
    if (!is_own) continue;
    const bool is_reduced_here = reduces_first && step.chunk / shape.members == me.group;
    const auto waited = static_cast<size_t>(step.wait.lane);
    ASSERT_EQ(waited, is_reduced_here ? kOuterReduce : outer);
    ASSERT_EQ(unrolled(schedule, waited)[static_cast<size_t>(step.wait.step)].chunk, step.chunk);
  }
}

// In an all-reduce partials and results are in the output, where only waits order them.
void expectWaitsForPartials(const Schedule& schedule) {
  for (const size_t lane : {size_t{kOuterReduce}, size_t{kOuterGather}}) {
    const Steps waited = unrolled(schedule, lane - 1);
    for (const Step& step : unrolled(schedule, lane)) {
      bool reads_output = false;
      for (const Source& source : step.sources)
        reads_output = reads_output || source.kind == Source::Kind::kOut;
      ASSERT_EQ(step.wait.lane, reads_output ? static_cast<int32_t>(lane) - 1 : -1);
      if (!reads_output) continue;
      const Step& partial = waited[static_cast<size_t>(step.wait.step)];
      ASSERT_EQ(partial.chunk, step.chunk);
      ASSERT_EQ(partial.keep.kind, Keep::Kind::kOut);
    }
  }
}

void expectComposed(const Shape& shape, int32_t position) {
  SCOPED_TRACE(formatString("%d x %d, position %d", shape.groups, shape.members, position));
  const Place me = placeOf(shape, position);
  const Schedule gather = scheduleOf("ho_ring", Collective::kAllGather, shape, position);
  ASSERT_EQ(gather.lanes.size(), 2u);
  expectRail(unrolled(gather, 0), railOf(Collective::kAllGather, shape, me, false));
  expectRows(unrolled(gather, 1), Collective::kAllGather, shape, me, false);

  const Schedule scatter = scheduleOf("ho_ring", Collective::kReduceScatter, shape, position);
  ASSERT_EQ(scatter.lanes.size(), 2u);
  EXPECT_EQ(scatter.scratch_queues, 1);
  expectRows(unrolled(scatter, kInnerReduce), Collective::kReduceScatter, shape, me, true);
  expectRail(unrolled(scatter, kOuterReduce), railOf(Collective::kReduceScatter, shape, me, true));
  for (size_t lane = 0; lane < 2; ++lane)
    for (const Step& step : unrolled(scatter, lane)) ASSERT_LT(step.wait.lane, 0);  // scratch orders them

  const Schedule reduce = scheduleOf("ho_ring", Collective::kAllReduce, shape, position);
  ASSERT_EQ(reduce.lanes.size(), 4u);
  expectRows(unrolled(reduce, kInnerReduce), Collective::kAllReduce, shape, me, true);
  expectRail(unrolled(reduce, kOuterReduce), railOf(Collective::kAllReduce, shape, me, true));
  expectRail(unrolled(reduce, kOuterGather), railOf(Collective::kAllReduce, shape, me, false));
  expectRows(unrolled(reduce, kInnerGather), Collective::kAllGather, shape, me, false);
  expectWaitsForPartials(reduce);
}

TEST(Composition, HoRingIsARingOfGroupsAndARingOfMembers) {
  for (const int32_t groups : {2, 3, 5})
    for (const int32_t members : {2, 3, 4})
      for (int32_t position = 0; position < groups * members; ++position)
        expectComposed({groups, members}, position);
}

TEST(Composition, TheInnerRingGathersWhatTheOuterHasBrought) {
  for (const Shape& shape : {Shape{2, 3}, Shape{5, 2}, Shape{4, 4}})
    for (int32_t position = 0; position < shape.ranks(); ++position) {
      const Place me = placeOf(shape, position);
      expectWaitsForRail(scheduleOf("ho_ring", Collective::kAllGather, shape, position), 1, 0, me, shape);
      expectWaitsForRail(scheduleOf("ho_ring", Collective::kAllReduce, shape, position), kInnerGather,
                         kOuterGather, me, shape);
    }
}

const Shape kLarge{2048, 8};

TEST(Composition, HoldsAt16384Ranks) {
  for (const int32_t position : {0, 7, 8191, 12345, 16383}) expectComposed(kLarge, position);
}

// Every position's ring is that of position 0 with all numbers shifted: so a proof for one size's ring holds at each rank.
TEST(Composition, EveryPositionOfARingDoesTheSame) {
  const int32_t n = kLarge.groups;
  const Schedule first = scheduleOf("ring", Collective::kAllReduce, {1, n}, 0);
  for (int32_t position = 1; position < n; position += 61) {
    const Schedule other = scheduleOf("ring", Collective::kAllReduce, {1, n}, position);
    ASSERT_EQ(other.lanes.size(), first.lanes.size());
    for (size_t lane = 0; lane < first.lanes.size(); ++lane) {
      const Steps own = unrolled(other, lane), zero = unrolled(first, lane);
      ASSERT_EQ(own.size(), zero.size());
      for (size_t s = 0; s < own.size(); ++s)
        ASSERT_EQ(withoutWait(own[s]),
                  renamed(zero[s], [&](int32_t number) { return (number + position) % n; }));
    }
  }
}

TEST(Composition, BothRingsAreProven) {
  for (const int32_t ranks : {kLarge.members, 256})
    for (const Collective collective : kSymmetric) {
      const Status values = verifyValues(buildAll("ring", collective, {1, ranks}), InPlace::kNo);
      EXPECT_TRUE(values.ok()) << values.message();
    }
}

TEST(Composition, ARanksScheduleIsSmallAt16384Ranks) {
  for (const char* algorithm : {"ho_ring", "ring"})
    for (const Collective collective : kSymmetric) {
      size_t bytes = sizeof(Schedule);
      const Schedule schedule = scheduleOf(algorithm, collective, kLarge, 12345);
      for (const Lane& lane : schedule.lanes)
        for (const Block& block : lane.blocks) {
          bytes += sizeof(Lane) + sizeof(Block);
          for (const Step& step : block.body)
            bytes += sizeof(Step) + step.sources.capacity() * sizeof(Source);
        }
      EXPECT_LT(bytes, 16u << 10) << algorithm << ", " << collectiveName(collective);
    }
}

}  // namespace
}  // namespace horing
