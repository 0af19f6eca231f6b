#include "horing_check/collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <string_view>

#include "selection/prediction.h"

namespace horing::check {

namespace {

using RingClock = std::chrono::steady_clock;

constexpr Collective kMeasured[] = {Collective::kAllReduce, Collective::kAllGather,
                                    Collective::kReduceScatter};
constexpr uint64_t kLeastVector = 512 << 10, kMostVector = 64 << 20;
// Rings, whose time a model of links alone predicts: the choice of algorithms also depends on cores.
constexpr const char* kAlgorithm = "ring";
constexpr const char* kForceRings = "all_reduce:256K-=ring;all_gather:256K-=ring;reduce_scatter:256K-=ring";
// The time of one collective on some nodes, and the share of the remaining time for all of them.
constexpr double kMostRingSeconds = 2, kLeastRingSeconds = 0.02, kShare = 0.75;
constexpr int kLeastTurns = 2, kUsualTurns = 6;
constexpr int64_t kMostWork = 3'000'000;  // of a simulation

// What node 0 decides.
struct Plan {
  double slot_s = 0;  // of one collective on some nodes; 0: nothing is measured
  uint64_t bytes = kMostVector;
  std::vector<int> good;  // nodes that are also measured without the others; empty: they are too few, or all
  std::string left_out;   // why nothing is measured
};

// One of the communicators that are measured. A resource.
class RingOfNodes {
 public:
  explicit RingOfNodes(TimeLimit& time_limit) : time_limit_(time_limit) {}
  ~RingOfNodes() {
    time_limit_.remove(comm_);
    (void)horingCommDestroy(comm_);
  }
  RingOfNodes(const RingOfNodes&) = delete;
  RingOfNodes& operator=(const RingOfNodes&) = delete;

  Status make(int nodes, const horingUniqueId& id, int self, uint64_t bytes) {
    nodes_ = nodes;
    send_.assign(bytes / sizeof(float), 1);
    receive_ = send_;
    HORING_TRY(called(horingSetDefault("HORING_ALGO", kForceRings), "HORING_ALGO"));
    HORING_TRY(called(horingCommInitRank(&comm_, nodes, id, self), "nodes cannot meet for collectives"));
    time_limit_.add(comm_);
    return {};
  }

  // The best time, each that of the slowest node: disturbances only slow. The first one makes connections.
  Result<double> time(Collective collective, double slot_s, int limit_ms) {
    HORING_TRY(called(horingCommSetTimeout(comm_, limit_ms), "horingCommSetTimeout"));
    double best_s = 0, spent_s = 0;
    for (int turn = 0; turn < kLeastTurns || spent_s < slot_s; ++turn) {
      const RingClock::time_point begin = RingClock::now();
      HORING_TRY(called(launch(collective), collectiveName(collective)));
      double took_s = std::chrono::duration<double>(RingClock::now() - begin).count();
      // Also the barrier before the next turn.
      HORING_TRY(called(horingAllReduce(&took_s, &took_s, 1, horingFloat64, horingMax, comm_, nullptr),
                        "comparing times"));
      best_s = turn < kLeastTurns ? took_s : std::min(best_s, took_s);
      spent_s += took_s;
    }
    return best_s;
  }

 private:
  horingResult_t launch(Collective collective) {
    const size_t whole = send_.size(), block = whole / static_cast<size_t>(nodes_);
    if (collective == Collective::kAllReduce)
      return horingAllReduce(send_.data(), receive_.data(), whole, horingFloat32, horingSum, comm_, nullptr);
    if (collective == Collective::kAllGather)
      return horingAllGather(send_.data(), receive_.data(), block, horingFloat32, comm_, nullptr);
    return horingReduceScatter(send_.data(), receive_.data(), block, horingFloat32, horingSum, comm_,
                               nullptr);
  }

  TimeLimit& time_limit_;
  horingComm_t comm_ = nullptr;
  int nodes_ = 0;
  std::vector<float> send_, receive_;
};

// Collective over all nodes, of which the members, ascending, measure. In the order of kMeasured, on every node.
Result<std::vector<double>> timesOf(Nodes& nodes, const std::vector<int>& members, const Plan& plan,
                                    RingClock::time_point end) {
  const int root = members.front();
  HORING_TRY(nodes.limitWaits(end));
  horingUniqueId id{};
  if (nodes.self() == root) HORING_TRY(called(horingGetUniqueId(&id), "horingGetUniqueId"));
  HORING_TRY(nodes.broadcast(&id, sizeof id, root));
  std::vector<double> times(std::size(kMeasured));
  const auto self = std::find(members.begin(), members.end(), nodes.self());
  if (self != members.end()) {
    RingOfNodes ring(nodes.timeLimit());
    HORING_TRY(ring.make(static_cast<int>(members.size()), id, static_cast<int>(self - members.begin()),
                         plan.bytes));
    for (size_t i = 0; i < times.size(); ++i) {
      HORING_ASSIGN(times[i], ring.time(kMeasured[i], plan.slot_s, waitMsUntil(end)));
    }
  }
  HORING_TRY(nodes.broadcast(times.data(), times.size() * sizeof times[0], root));
  return times;
}

// Which sides of which nodes are slow, by node; empty: none.
std::vector<LinkParts> slowSides(size_t nodes, const Verdict& verdict) {
  std::vector<LinkParts> sides(nodes);
  bool any = false;
  for (const Finding& finding : verdict.findings) {
    if (!isSlowNode(verdict, finding)) continue;
    LinkParts& side = sides[static_cast<size_t>(finding.node)];
    (finding.part == Part::kSends ? side.sends : side.receives) = finding.factor;
    any = true;
  }
  return any ? sides : std::vector<LinkParts>();
}

// The variable that asks for another algorithm; null: none.
const char* whatKeepsFromRings() {
  const auto is = [](const char* name, std::initializer_list<std::string_view> usual) {
    const char* const value = std::getenv(name);
    return !value || std::find(usual.begin(), usual.end(), value) != usual.end();
  };
  if (!is("HORING_ALGO", {"", "auto", kAlgorithm})) return "HORING_ALGO";
  if (!is("HORING_REPRODUCIBLE", {"", "0"})) return "HORING_REPRODUCIBLE";
  return nullptr;
}

// The largest vector whose all-reduce fits into a slot a few times, if it waits for the slowest side.
Plan planOf(const Report& report, double seconds_left) {
  Plan plan;
  if (report.verdict.bytes_per_s <= 0) plan.left_out = "no rates were measured";
  if (const char* const name = whatKeepsFromRings())
    plan.left_out = std::string(name) + " is set, and they are compared as rings";
  if (!plan.left_out.empty()) return plan;
  const size_t nodes = report.names.size();
  plan.good = goodNodes(report);
  if (plan.good.size() < 2 || plan.good.size() == nodes) plan.good.clear();
  const double parts = static_cast<double>(std::size(kMeasured)) * (plan.good.empty() ? 1 : 2);
  const double slot_s = std::min(kMostRingSeconds, kShare * seconds_left / parts);
  double slowest = 1;
  for (const LinkParts& side : slowSides(nodes, report.verdict))
    slowest = std::min({slowest, side.sends, side.receives});
  for (; slot_s >= kLeastRingSeconds && plan.bytes >= kLeastVector; plan.bytes /= 2) {
    const Result<double> expected_s = expectedSeconds(Collective::kAllReduce, plan.bytes, nodes,
                                                      report.verdict, false, report.figures.shares);
    if (expected_s.ok() && expected_s.value() <= slowest * slot_s / kUsualTurns) {
      plan.slot_s = slot_s;
      return plan;
    }
  }
  plan.left_out = "too little time was left for them (--time)";
  return plan;
}

// Node 0's plan, on every node.
Status share(Nodes& nodes, Plan& plan) {
  std::vector<double> numbers = {plan.slot_s, static_cast<double>(plan.bytes)};
  numbers.resize(2 + static_cast<size_t>(nodes.count()));
  for (const int node : plan.good) numbers[2 + static_cast<size_t>(node)] = 1;
  HORING_TRY(nodes.broadcast(numbers.data(), numbers.size() * sizeof numbers[0], 0));
  plan.slot_s = numbers[0];
  plan.bytes = static_cast<uint64_t>(numbers[1]);
  plan.good.clear();
  for (int node = 0; node < nodes.count(); ++node)
    if (numbers[2 + static_cast<size_t>(node)] != 0) plan.good.push_back(node);
  return {};
}

double secondsOr0(const Result<double>& seconds) {
  return seconds.ok() ? seconds.value() : 0;
}

}  // namespace

Result<double> expectedSeconds(Collective collective, uint64_t bytes, size_t nodes, const Verdict& verdict,
                               bool with_slow_sides, const std::vector<double>& shares) {
  Question question;
  question.machine.nodes = static_cast<int32_t>(nodes);
  question.machine.ranks_per_node = 1;
  question.machine.between = {verdict.latency_s * 1e6, verdict.bytes_per_s / 1e9, 0, 0, 0};
  question.machine.links = Links::kBetween;
  question.collective = collective;
  question.algorithm = kAlgorithm;
  question.bytes = bytes;
  question.ranks = Ranks::kOneNodeIfLikely;
  question.most_work = kMostWork;
  std::vector<LinkParts> parts = with_slow_sides ? slowSides(nodes, verdict) : std::vector<LinkParts>();
  if (parts.empty() && !shares.empty()) parts.resize(nodes);
  for (size_t node = 0; node < shares.size(); ++node)
    parts[node] = {parts[node].sends * shares[node], parts[node].receives * shares[node]};
  question.machine.link_parts = std::move(parts);
  HORING_ASSIGN(const Prediction prediction, predict(question, Record::kNothing));
  return toMicroseconds(prediction.result.time) * 1e-6;
}

Result<Collectives> measureCollectives(Nodes& nodes, const Report& report, RingClock::time_point end) {
  Plan plan;
  if (nodes.self() == 0) plan = planOf(report, std::chrono::duration<double>(end - RingClock::now()).count());
  HORING_TRY(share(nodes, plan));
  Collectives found;
  found.left_out = plan.left_out;
  if (plan.slot_s <= 0) return found;
  std::vector<int> all(static_cast<size_t>(nodes.count()));
  std::iota(all.begin(), all.end(), 0);
  HORING_ASSIGN(const std::vector<double> with_all, timesOf(nodes, all, plan, end));
  std::vector<double> with_good(with_all.size(), 0);
  if (!plan.good.empty()) {
    HORING_ASSIGN(with_good, timesOf(nodes, plan.good, plan, end));
  }
  if (nodes.self() != 0) return found;
  found.bytes = plan.bytes;
  const Verdict& verdict = report.verdict;
  const std::vector<double>& shares = report.figures.shares;
  std::vector<double> good_shares;
  for (const int node : plan.good)
    if (!shares.empty()) good_shares.push_back(shares[static_cast<size_t>(node)]);
  for (size_t i = 0; i < with_all.size(); ++i) {
    const auto expected_s = [&](size_t of, bool with_slow_sides, const std::vector<double>& of_shares) {
      return secondsOr0(expectedSeconds(kMeasured[i], plan.bytes, of, verdict, with_slow_sides, of_shares));
    };
    CollectiveTime& time = found.times.emplace_back();
    time.name = collectiveName(kMeasured[i]);
    time.seconds = with_all[i];
    time.expected_s = expected_s(all.size(), false, shares);
    if (!slowSides(all.size(), verdict).empty()) time.with_slow_s = expected_s(all.size(), true, shares);
    time.good_s = with_good[i];
    if (!plan.good.empty()) time.good_expected_s = expected_s(plan.good.size(), false, good_shares);
  }
  return found;
}

}  // namespace horing::check
