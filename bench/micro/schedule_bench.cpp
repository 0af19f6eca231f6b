// The cost of a schedule before it runs: building the schedule of one rank, building those of all ranks, and proving them.
//
//   build/release/bin/plan_bench --benchmark_filter='Build|Verify'
//
// Arguments: groups, members. A plan is verified once, when it is first needed, for up to 64 ranks.
#include <benchmark/benchmark.h>

#include "algorithms/catalogue.h"
#include "schedule/text.h"
#include "schedule/verify.h"

namespace horing {
namespace {

Shape shapeOf(const benchmark::State& state) {
  return {static_cast<int32_t>(state.range(0)), static_cast<int32_t>(state.range(1))};
}

std::vector<Schedule> buildAll(const char* algorithm, const Shape& shape) {
  std::vector<Schedule> all;
  for (int32_t position = 0; position < shape.ranks(); ++position)
    all.push_back(buildSchedule(algorithm, Collective::kAllReduce, shape, position).take());
  return all;
}

int64_t stepsOf(const std::vector<Schedule>& all) {
  int64_t steps = 0;
  for (const Schedule& schedule : all)
    for (const Lane& lane : schedule.lanes) steps += lane.stepCount();
  return steps;
}

void finish(benchmark::State& state, const Status& status, int64_t steps) {
  if (!status.ok()) state.SkipWithError(status.message().c_str());
  state.SetItemsProcessed(state.iterations() * steps);
  state.counters["steps"] = static_cast<double>(steps);
}

// Bytes that a schedule takes, written down as it is.
size_t memoryOf(const Schedule& schedule) {
  size_t bytes = sizeof(Schedule) + schedule.lanes.capacity() * sizeof(Lane);
  for (const Lane& lane : schedule.lanes) {
    bytes += lane.blocks.capacity() * sizeof(Block);
    for (const Block& block : lane.blocks) {
      bytes += block.body.capacity() * sizeof(Step);
      for (const Step& step : block.body)
        bytes += step.sources.capacity() * sizeof(Source) + step.signal_to.capacity() * sizeof(int32_t);
    }
  }
  return bytes;
}

void BuildOneRank(benchmark::State& state, const char* algorithm) {
  const Shape shape = shapeOf(state);
  const auto build = [&] {
    return buildSchedule(algorithm, Collective::kAllReduce, shape, shape.ranks() - 1);
  };
  for (auto _ : state) benchmark::DoNotOptimize(build());
  state.counters["bytes"] = static_cast<double>(memoryOf(build().take()));
}

void BuildAllRanks(benchmark::State& state, const char* algorithm) {
  for (auto _ : state) benchmark::DoNotOptimize(buildAll(algorithm, shapeOf(state)));
}

void VerifyValues(benchmark::State& state, const char* algorithm) {
  const std::vector<Schedule> all = buildAll(algorithm, shapeOf(state));
  Status status;
  for (auto _ : state) status = verifyValues(all, InPlace::kYes);
  finish(state, status, stepsOf(all));
}

void VerifyProgress(benchmark::State& state, const char* algorithm) {
  const std::vector<Schedule> all = buildAll(algorithm, shapeOf(state));
  const int32_t window = 4;
  const PlanParameters plan{3 * window, {window}, 1, slotsNeeded(window, 1), scratchSlicesNeeded(window)};
  Status status;
  for (auto _ : state) status = verifyProgress(all, plan);
  finish(state, status, stepsOf(all));
}

void Text(benchmark::State& state, const char* algorithm) {
  const Schedule schedule = buildAll(algorithm, shapeOf(state))[0];
  for (auto _ : state) benchmark::DoNotOptimize(parseSchedules(formatSchedule(schedule)));
}

void small(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({2, 4})->Args({2, 8})->Args({8, 8});
}
// Up to 512 ranks: the proof walks every step of every rank and keeps the state of every chunk at every rank, so with n
// it grows as n * n. 4096 ranks would need 64 times the time and memory of 512 (some 10 GB), and the library
// proves no more than 64 of its own accord.
void large(benchmark::internal::Benchmark* benchmark) {
  small(benchmark);
  benchmark->Args({64, 8})->Unit(benchmark::kMicrosecond);
}
void huge(benchmark::internal::Benchmark* benchmark) {
  large(benchmark);
  benchmark->Args({512, 8})->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(BuildOneRank, ring, "ring")->Apply(huge)->Args({2048, 8});
BENCHMARK_CAPTURE(BuildOneRank, ho_ring, "ho_ring")->Apply(huge)->Args({2048, 8});
BENCHMARK_CAPTURE(BuildOneRank, direct, "direct")->Apply(large);
BENCHMARK_CAPTURE(BuildAllRanks, ring, "ring")->Apply(huge);
BENCHMARK_CAPTURE(BuildAllRanks, ho_ring, "ho_ring")->Apply(huge);
BENCHMARK_CAPTURE(VerifyValues, ring, "ring")->Apply(large);
BENCHMARK_CAPTURE(VerifyValues, ho_ring, "ho_ring")->Apply(large);
BENCHMARK_CAPTURE(VerifyValues, direct, "direct")->Apply(small);
BENCHMARK_CAPTURE(VerifyProgress, ring, "ring")->Apply(large);
BENCHMARK_CAPTURE(VerifyProgress, ho_ring, "ho_ring")->Apply(large);
BENCHMARK_CAPTURE(Text, ho_ring, "ho_ring")->Apply(large);

}  // namespace
}  // namespace horing
