#include "scenario.h"

#include <algorithm>
#include <cstring>

#include "algorithms/catalogue.h"
#include "schedule/layout.h"
#include "schedule/postcondition.h"

namespace horing::simulated {

namespace {

constexpr Fault kFaults[] = {Fault::kNone,  Fault::kNone, Fault::kNone, Fault::kNone,  Fault::kBreak,
                             Fault::kBreak, Fault::kCut,  Fault::kCut,  Fault::kDeath, Fault::kDisagreement};
// How many operations repeat the previous one with other data: programs repeat calls, and the engine keeps its layout if it can
// (HostOperation::begin).
constexpr int kRepeatedPercent = 30;
// From this many bytes on, chunks that differ in size have slices that do (Slicing::ofChunk).
constexpr uint32_t kSlicesDiffer = 2 * Slicing::kSmallestSlice;

// Whether all ranks of such a plan can be simulated in a moment: where everybody talks to everybody, connections grow with
// the square. A shape that the algorithm does not have costs nothing.
bool isAffordable(const PlanChoice& plan, const Shape& shape) {
  constexpr int64_t kMostSteps = 120'000, kMostConnections = 6'000;
  // A rank of the smallest group bears the most pieces.
  int32_t smallest = 0;
  for (int32_t group = 1; group < shape.groups; ++group)
    if (shape.sizeOf(group) < shape.sizeOf(smallest)) smallest = group;
  const Result<Schedule> busiest =
      buildSchedule(plan.algorithm, plan.collective, shape, shape.firstOf(smallest));
  if (!busiest.ok()) return true;
  int64_t steps = 0, peers = 0;
  for (const Lane& lane : busiest.value().lanes) {
    steps += lane.stepCount();
    peers += static_cast<int64_t>(sendPeers(lane).size());
  }
  return steps * shape.ranks() <= kMostSteps && peers * shape.ranks() <= kMostConnections;
}

// `any_sizes`: half of the shapes have groups of up to `members` ranks each, until all ranks are in one.
Shape shapeOf(int32_t ranks, bool any_sizes, Dice& dice) {
  const auto members = static_cast<int32_t>(dice.between(1, std::min(ranks, 32)));
  if (!any_sizes || dice.chance(50)) return {std::max(1, ranks / members), members};
  std::vector<int32_t> sizes;
  for (int32_t left = ranks; left > 0; left -= sizes.back())
    sizes.push_back(static_cast<int32_t>(dice.between(1, std::min(left, members))));
  return Shape::of(sizes);
}

// For algorithms that follow the rates of groups. Some groups reduce little, or nothing.
void chooseRates(Shape& shape, Dice dice) {
  if (shape.groups < 2 || dice.chance(50)) return;
  std::vector<int32_t> parts;
  int32_t left = Shares::kWhole;
  for (int32_t group = 0; group < shape.groups; ++group) {
    const int32_t most = dice.oneOf(std::vector<int32_t>{0, 1, 100, 2 * Shares::kWhole / shape.groups});
    const bool is_last = group + 1 == shape.groups;
    parts.push_back(is_last ? left : static_cast<int32_t>(dice.between(0, std::min(left, most))));
    left -= parts.back();
    shape.by_speed.push_back(group);
  }
  std::rotate(parts.begin(), parts.begin() + dice.between(0, shape.groups - 1), parts.end());
  std::rotate(shape.by_speed.begin(), shape.by_speed.begin() + dice.between(0, shape.groups - 1),
              shape.by_speed.end());
  shape.shares = Shares(std::move(parts));
}

// Mostly a few slices of each chunk, at times a handful of elements, or none.
size_t countOf(const Scenario& scenario, const PlanChoice& plan, DataType type, Dice& dice) {
  const Schedule schedule =
      buildSchedule(plan.algorithm, plan.collective, scenario.shape, 0, plan.root).take();
  const int64_t chunks =
      isCutAtWill(plan.collective) ? std::min<int64_t>(schedule.grid.chunks(), scenario.shape.ranks()) : 1;
  const auto slot = static_cast<int64_t>(scenario.settings.slot_bytes / dataTypeBytes(type));
  const bool is_costly = scenario.shape.ranks() > 32 || scenario.settings.slot_bytes >= kSlicesDiffer;
  const int64_t slices = is_costly ? 3 : 5 * scenario.settings.window;
  if (dice.chance(10)) return static_cast<size_t>(dice.between(0, 3));
  return static_cast<size_t>(dice.between(0, chunks * slot * dice.between(1, slices)));
}

void choosePlans(Scenario& scenario, Dice& dice) {
  for (int64_t plans = dice.between(1, 3); plans > 0; --plans) {
    const Algorithm algorithm = dice.oneOf(algorithmCatalogue());
    const auto collective = static_cast<Collective>(dice.between(0, kCollectives - 1));
    if (algorithm.has(collective)) scenario.plans.push_back({algorithm.name, collective});
  }
}

bool reachesPeers(const PlanChoice& plan) {
  return findAlgorithm(plan.algorithm)->reachesPeers();
}

// They take inputs that a rank with its own factor has not scaled yet, so they are never chosen for that.
bool canFold(const PlanChoice& plan, DataType type, RedOp op) {
  return hasRedOp(type, op) && !(reachesPeers(plan) && op == RedOp::kPreMulSum);
}

// Collectives with peers' buffers in place have blocks of one size.
bool mayBeUneven(const PlanChoice& plan) {
  return !isCutAtWill(plan.collective) && !reachesPeers(plan);
}

// Other data, and, if blocks differ in size, perhaps other sizes in the same tables.
OperationChoice repeated(const OperationChoice& earlier, Dice& dice) {
  OperationChoice operation = earlier;
  operation.data_seed = dice.bits();
  if (dice.chance(70)) operation.block_seed = dice.bits();
  return operation;
}

void chooseOperations(Scenario& scenario, Dice& dice) {
  const int64_t operations = scenario.shape.ranks() > 32 ? dice.between(1, 2) : dice.between(1, 5);
  for (int64_t i = 0; i < operations; ++i) {
    if (i > 0 && dice.chance(kRepeatedPercent)) {
      scenario.operations.push_back(repeated(scenario.operations.back(), dice));
      continue;
    }
    OperationChoice operation;
    operation.plan = static_cast<size_t>(dice.between(0, static_cast<int64_t>(scenario.plans.size()) - 1));
    operation.type = static_cast<DataType>(dice.between(0, kDataTypes - 1));
    do operation.op = static_cast<RedOp>(dice.between(0, kRedOps - 1));
    while (!canFold(scenario.plans[operation.plan], operation.type, operation.op));
    operation.count = countOf(scenario, scenario.plans[operation.plan], operation.type, dice);
    operation.in_place = dice.chance(40);
    operation.uneven = dice.chance(50) && mayBeUneven(scenario.plans[operation.plan]);
    operation.data_seed = dice.bits();
    operation.block_seed = dice.bits();
    scenario.operations.push_back(operation);
  }
}

// Not every algorithm has every shape.
void dropWhatCannotBe(Scenario& scenario) {
  std::erase_if(scenario.plans, [&](const PlanChoice& plan) {
    return !buildSchedule(plan.algorithm, plan.collective, scenario.shape, 0).ok();
  });
  if (scenario.plans.empty()) scenario.plans.push_back({"ho_ring", Collective::kAllReduce});
}

Shape chooseShape(const Scenario& scenario, Dice& dice) {
  const int64_t size = dice.between(1, 1000);
  auto ranks = static_cast<int32_t>(size <= 900   ? dice.between(1, 9)
                                    : size <= 992 ? dice.between(10, 40)
                                                  : dice.between(100, 300));
  // Plans that need groups of one size are dropped where sizes differ.
  const bool any_sizes = scenario.plans.empty() || findAlgorithm(scenario.plans.front().algorithm)->any_sizes;
  while (true) {
    const Shape shape = shapeOf(ranks, any_sizes, dice);
    if (std::all_of(scenario.plans.begin(), scenario.plans.end(),
                    [&](const PlanChoice& plan) { return isAffordable(plan, shape); }))
      return shape;
    ranks /= 2;
  }
}

// "2x4", or "4+3" where groups differ in size.
std::string shapeText(const Shape& shape) {
  if (!shape.rails) return formatString("%dx%d", shape.groups, shape.members);
  std::string text;
  for (const int32_t size : shape.rails.sizes()) text += (text.empty() ? "" : "+") + std::to_string(size);
  return text;
}

}  // namespace

size_t OperationChoice::block(int32_t owner, int32_t taker) const {
  Dice dice(block_seed ^ static_cast<uint64_t>(owner) << 40 ^ static_cast<uint64_t>(taker) << 20);
  return dice.chance(25) ? 0 : static_cast<size_t>(dice.between(0, static_cast<int64_t>(2 * count)));
}

Weather weatherOf(Dice& dice) {
  Weather weather;
  weather.latency_ns = dice.oneOf(std::vector<int64_t>{0, 100, 5'000});
  weather.jitter_ns = dice.oneOf(std::vector<int64_t>{0, 50, 1'000, 100'000});
  weather.spike_percent = dice.oneOf(std::vector<int>{0, 0, 2, 20});
  weather.pieces = dice.oneOf(std::vector<int>{1, 1, 2, 4});
  weather.handover_ns = dice.oneOf(std::vector<int64_t>{0, 0, 500, 20'000});
  weather.poll_ns = dice.oneOf(std::vector<int64_t>{0, 10, 1'000, 30'000});
  return weather;
}

const char* faultName(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "no fault";
    case Fault::kCut:
      return "cut link";
    case Fault::kDeath:
      return "dead rank";
    case Fault::kDisagreement:
      return "disagreement";
    case Fault::kBreak:
      return "links that break";
  }
  return "?";
}

Scenario makeScenario(uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  scenario.seed = seed;
  choosePlans(scenario, dice);
  scenario.shape = chooseShape(scenario, dice);
  chooseRates(scenario.shape, Dice(~seed));
  dropWhatCannotBe(scenario);
  for (PlanChoice& plan : scenario.plans)
    if (hasRoot(plan.collective))
      plan.root = static_cast<int32_t>(dice.between(0, scenario.shape.ranks() - 1));
  for (int32_t rank = 0; rank < scenario.shape.ranks(); ++rank) scenario.rank_of_position.push_back(rank);
  if (dice.chance(50))
    for (size_t i = scenario.rank_of_position.size(); i > 1; --i)
      std::swap(scenario.rank_of_position[i - 1],
                scenario.rank_of_position[static_cast<size_t>(dice.between(0, static_cast<int64_t>(i) - 1))]);
  scenario.settings.window = static_cast<int32_t>(dice.between(1, 6));
  scenario.settings.slot_bytes = static_cast<uint32_t>(64 * dice.between(1, 6));
  if ((scenario.shape.rails || scenario.shape.shares) && scenario.shape.ranks() <= 16 && dice.chance(20))
    scenario.settings.slot_bytes *= kSlicesDiffer / 64;
  scenario.settings.simd = static_cast<Simd>(dice.between(0, static_cast<int64_t>(detectSimd())));
  scenario.settings.stream_bytes = seed % 2 == 0 ? 0 : SIZE_MAX;
  scenario.slots = static_cast<uint32_t>(scenario.settings.window + dice.between(1, 3));
  scenario.weather = weatherOf(dice);
  scenario.skew_ns = dice.oneOf(std::vector<int64_t>{0, 1'000, 1'000'000});
  chooseOperations(scenario, dice);
  scenario.fault = scenario.shape.ranks() > 1 ? dice.oneOf(kFaults) : Fault::kNone;
  scenario.fault_permille = static_cast<int>(dice.between(0, 1000));
  scenario.fault_operation =
      static_cast<size_t>(dice.between(0, static_cast<int64_t>(scenario.operations.size()) - 1));
  // A rank that waits for a landing of another call learns that only from the control plane.
  if (scenario.fault != Fault::kDisagreement && dice.chance(50)) {
    scenario.landings = static_cast<uint32_t>(dice.between(1, 8));
    scenario.settings.in_place_bytes = static_cast<size_t>(dice.between(1, 1000));
  }
  return scenario;
}

std::string scenarioText(const Scenario& s) {
  std::string text =
      formatString("seed %llu: %s ranks, window %d, %u slots of %u bytes, %s, %s",
                   static_cast<unsigned long long>(s.seed), shapeText(s.shape).c_str(), s.settings.window,
                   s.slots, s.settings.slot_bytes, simdName(s.settings.simd), faultName(s.fault));
  if (s.shape.shares) text += ", groups of different rates";
  if (s.landings > 0)
    text += formatString(", %u landings told, from %zu bytes on", s.landings, s.settings.in_place_bytes);
  if (isOfMessages(s.fault)) text += formatString(" after %d/1000", s.fault_permille);
  if (s.fault == Fault::kDisagreement) text += formatString(" in #%zu", s.fault_operation);
  for (const OperationChoice& o : s.operations)
    text += formatString("; %s %s %zu x %s %s%s%s", s.plans[o.plan].algorithm.c_str(),
                         collectiveName(s.plans[o.plan].collective), o.count, dataTypeName(o.type),
                         redOpName(o.op), o.in_place ? " in place" : "", o.uneven ? " uneven" : "");
  return text;
}

void fillInput(std::vector<std::byte>& bytes, DataType type, Dice& dice) {
  const size_t size = dataTypeBytes(type);
  // The bits of the exponent that stay at random, below a fixed middle.
  const auto number = [&]() -> uint64_t {
    const uint64_t bits = dice.bits();
    switch (type) {
      case DataType::kFloat64:
        return (bits & 0x801f'ffff'ffff'ffff) | 0x3fe0'0000'0000'0000;
      case DataType::kFloat32:
        return (bits & 0x80ff'ffff) | 0x3f00'0000;
      case DataType::kBfloat16:
        return (bits & 0x80ff) | 0x3f00;
      case DataType::kFloat16:
        return (bits & 0x87ff) | 0x3800;
      case DataType::kFloat8e4m3:
        return (bits & 0x8f) | 0x30;
      case DataType::kFloat8e5m2:
        return (bits & 0x87) | 0x38;
      default:
        return bits;
    }
  };
  for (size_t at = 0; at < bytes.size(); at += size) {
    const uint64_t value = dice.chance(2) ? dice.bits() : number();
    std::memcpy(bytes.data() + at, &value, size);
  }
}

}  // namespace horing::simulated
