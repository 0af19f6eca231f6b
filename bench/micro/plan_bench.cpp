// The cost of a plan: the first use of a collective, and every later use up to the first slice.
//
//   build/release/bin/plan_bench --benchmark_filter='FirstUse|Cached'
//
// Arguments: groups, members. The transport goes nowhere, so connecting costs nothing.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "../../tests/transport/idle_link.h"
#include "comm/calls/planner.h"
#include "comm/links/link_shape.h"

namespace horing {
namespace {

class NowhereTransport final : public Transport {
 public:
  const char* name() const override { return "nowhere"; }
  std::vector<std::byte> address() const override { return {std::byte{1}}; }
  bool canReach(std::span<const std::byte>) const override { return true; }
  std::string whyUnreachable(std::span<const std::byte>) const override { return {}; }
  Result<Link*> connect(int peer, std::span<const std::byte>, const LinkShape&, int number) override {
    links_.push_back(std::make_unique<testing::IdleLink>(peer, number));
    return links_.back().get();
  }
  Status progress() override { return {}; }
  void beginWait() override {}
  int waitFd() const override { return -1; }
  void endWait() override {}
  uint64_t memoryBytes() const override { return 0; }
  RegionAccess* regions() override { return nullptr; }

 private:
  std::vector<std::unique_ptr<testing::IdleLink>> links_;
};

std::unique_ptr<Connector> makeConnector(const Config& config, int ranks) {
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(std::make_unique<NowhereTransport>());
  const std::vector<std::vector<std::byte>> addresses(1, transports[0]->address());
  auto connector =
      std::make_unique<Connector>(0, std::vector{linkShapeOf(config, "nowhere", 2)}, std::move(transports));
  connector->setAddresses(AddressTable(static_cast<size_t>(ranks), addresses));
  connector->setChoices(std::vector<int>(static_cast<size_t>(ranks), 0));
  return connector;
}

// What rank 0 of a communicator has before its first collective.
struct Setting {
  Setting(const char* algorithm, int groups, int members)
      : config(Config::fromLookup([&](const std::string& name) -> const char* {
                 return name == "HORING_ALGO" ? algorithm : nullptr;
               }).take()),
        map(GroupMap::blocks(groups, members)),
        selector({config, map}) {
    forget();
  }
  void forget() {
    planner.reset();
    connector = makeConnector(config, map.ranks());
    planner = std::make_unique<Planner>(config, map, 0, *connector, 1);
  }
  // As Communicator::run does before it drives. nullptr on failure.
  HostOperation* prepare() {
    const Selection& selection = selector.select(Collective::kAllReduce, kBytes);
    Result<PlannedOperation*> planned = planner->prepare(Collective::kAllReduce, selection, 0);
    if (!planned.ok()) return nullptr;
    if (!planned.value()->operation) planner->bind(*planned.value());
    return planned.value()->operation.get();
  }

  static constexpr size_t kBytes = 1u << 20;
  Config config;
  GroupMap map;
  Selector selector;
  std::unique_ptr<Connector> connector;
  std::unique_ptr<Planner> planner;
};

Setting makeSetting(const benchmark::State& state, const char* algorithm) {
  return Setting(algorithm, static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
}

// Building, proving (as the library does: up to 64 ranks) and binding.
void FirstUse(benchmark::State& state, const char* algorithm) {
  Setting setting = makeSetting(state, algorithm);
  for (auto _ : state) {
    if (!setting.prepare()) state.SkipWithError("no plan");
    state.PauseTiming();
    setting.forget();
    state.ResumeTiming();
  }
}

// Finding the plan again.
void CachedPlan(benchmark::State& state, const char* algorithm) {
  Setting setting = makeSetting(state, algorithm);
  if (!setting.prepare()) state.SkipWithError("no plan");
  for (auto _ : state) benchmark::DoNotOptimize(setting.prepare());
}

// Finding it and laying it over the caller's buffers. The size changes by `change` elements, forth and back.
void beginCalls(benchmark::State& state, const char* algorithm, size_t change) {
  Setting setting = makeSetting(state, algorithm);
  if (!setting.prepare()) state.SkipWithError("no plan");
  Call call;
  call.count = Setting::kBytes / sizeof(float);
  uint64_t sequence = 0;
  for (auto _ : state) {
    call.count ^= change;
    setting.prepare()->begin(call, ++sequence);
  }
}
void CachedAndBegun(benchmark::State& state, const char* algorithm) {
  beginCalls(state, algorithm, 0);
}
void CachedAndBegunOtherSize(benchmark::State& state, const char* algorithm) {
  beginCalls(state, algorithm, 1024);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({2, 4})->Args({8, 8})->Args({64, 8})->Args({512, 8});
}
void shapesInMicroseconds(benchmark::internal::Benchmark* benchmark) {
  shapes(benchmark);
  benchmark->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(FirstUse, ring, "ring")->Apply(shapesInMicroseconds);
BENCHMARK_CAPTURE(FirstUse, ho_ring, "ho_ring")->Apply(shapesInMicroseconds);
BENCHMARK_CAPTURE(CachedPlan, ring, "ring")->Apply(shapes);
BENCHMARK_CAPTURE(CachedPlan, ho_ring, "ho_ring")->Apply(shapes);
BENCHMARK_CAPTURE(CachedAndBegun, ring, "ring")->Apply(shapes);
BENCHMARK_CAPTURE(CachedAndBegun, ho_ring, "ho_ring")->Apply(shapes);
BENCHMARK_CAPTURE(CachedAndBegunOtherSize, ho_ring, "ho_ring")->Apply(shapes);

}  // namespace
}  // namespace horing
