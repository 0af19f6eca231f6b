#include "horing_check/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "horing_check/loss_diagnosis.h"
#include "horing_check/shared_link.h"

namespace horing::check {

namespace {

constexpr double kDeviationsPerMad = 1.4826;  // of a normal distribution
constexpr int kRefinements = 3;               // until the sets of slow nodes and the estimates are settled
// The fewest figures of a node, and of a path, before it is blamed.
constexpr int kSamplesOfNode = 12, kSamplesOfPath = 4;
// The accepted probability that noise slows all figures of any path.
constexpr double kPathByAccident = 0.001;
// A sample that is slower by a fifth may have shared a link.
constexpr double kSlowSample = 0.22;
// Of the pairs of a round that pauses.
constexpr double kSlowRound = 0.9;
// So many samples across an uplink that are not slow show that it is slow only while several pairs cross it.
constexpr int kWellSamples = 4;
// An uplink is slow in one direction if while one node sends there are more slow samples in that direction, by this factor.
constexpr int kOnlyOther = 10;
// Deviations that are significant with 2,000 comparisons per cluster.
constexpr double kNodeDeviations = 5, kPathDeviations = 6;

// Half of the nodes are slow if no path of theirs ever reached this, but for those to one node (two behind an uplink), and those between all
// others reached nearly the best, but for one of ten; these are three nodes or more, which meet in as many rounds.
constexpr double kSlowHalf = 0.22, kAsFast = 0.07;
constexpr int kLeastFast = 3, kPathsOfPair = 2;
constexpr size_t kBestPart = 10, kFewPaths = 10;  // a tenth of the paths

// The limits of a quantity, in logarithms like all values below; larger is worse.
struct Limits {
  double least_of_node, least_of_path;
  double least_seconds;  // of a latency
};
constexpr Limits kRateLimits = {0.07, 0.07, 0};
constexpr Limits kLatencyLimits = {0.405, 0.405, 5e-6};  // half as much again

// Of values of which larger is worse, the worst of the better half, or of a quarter. Of two middle values the better one: a node with one slow
// and one good partner is not slow.
double worstOfBetter(size_t part, std::vector<double> values) {
  if (values.empty()) return 0;
  const auto worst = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / part);
  std::nth_element(values.begin(), worst, values.end());
  return *worst;
}
double medianOf(std::vector<double> values) {
  return worstOfBetter(2, std::move(values));
}
double quarterOf(std::vector<double> values) {
  return worstOfBetter(4, std::move(values));
}

double deviationOf(std::vector<double> values, double center) {
  for (double& value : values) value = std::abs(value - center);
  return kDeviationsPerMad * medianOf(std::move(values));
}

// All figures of one direction between two nodes.
struct Path {
  int from, to;
  // By how much each end is expected to be faster than the pair: then the figures say less of that end.
  double sender_spare, receiver_spare;
  std::span<const double> costs;  // ascending
  double middle = 0, best = 0;
};

// One side of a node: sending or receiving.
struct Side {
  std::vector<const Path*> paths;  // to nodes that are fast enough to judge it
  double cost = 0;
  double fast = 0;  // with the second of its partners, or in its group
  int samples = 0;
  bool slow = false;
};

class Model {
 public:
  Model(const Figures& figures, Quantity quantity, const Limits& limits)
      : quantity_(quantity), limits_(limits), sends_(sides(figures)), receives_(sides(figures)) {
    std::vector<std::tuple<int, int, double>> costs;
    costs.reserve(figures.samples.size());
    for (const Sample& sample : figures.samples) {
      const double value = quantity == Quantity::kRate ? sample.bytes_per_s : sample.latency_s;
      if (value > 0 && std::isfinite(value))
        costs.emplace_back(sample.from, sample.to,
                           quantity == Quantity::kRate ? -std::log(value) : std::log(value));
    }
    samples_ = static_cast<double>(costs.size());
    std::sort(costs.begin(), costs.end());
    costs_.reserve(costs.size());  // paths refer to them
    const bool differ = quantity == Quantity::kRate && !figures.shares.empty();
    const auto spare = [&](int node, int from, int to) {
      return differ ? std::log(figures.shares[at(node)] / figures.shareOf(from, to)) : 0;
    };
    for (const auto& [from, to, cost] : costs) {
      costs_.push_back(cost);
      const bool is_new = paths_.empty() || endsOf(paths_.back()) != std::pair(from, to);
      if (is_new) paths_.push_back({from, to, spare(from, from, to), spare(to, from, to), {}});
      const double* const first = is_new ? &costs_.back() : paths_.back().costs.data();
      paths_.back().costs = {first, &costs_.back() + 1};
    }
    for (Path& path : paths_) {
      path.middle = path.costs[(path.costs.size() - 1) / 4];
      path.best = path.costs.front();
      sends_[at(path.from)].paths.push_back(&path);
      receives_[at(path.to)].paths.push_back(&path);
    }
    for (size_t node = 0; differ && node < sends_.size(); ++node) {
      keepJudges(sends_[node], &Path::sender_spare);
      keepJudges(receives_[node], &Path::receiver_spare);
    }
    for (std::vector<Side>* all : {&sends_, &receives_})
      for (Side& side : *all) {
        for (const Path* path : side.paths) side.samples += static_cast<int>(path->costs.size());
        side.fast = fastOf(side);
      }
    if (quantity == Quantity::kRate) markSlowHalf();
    for (int i = 0; i < kRefinements; ++i) refine();
  }

  // Of these nodes each reaches what it can with the best of its group, if not with others. A node is in one group at most.
  void knowGroups(const std::vector<std::vector<int>>& groups) {
    std::vector<int> group_of(sends_.size(), -1);
    for (size_t group = 0; group < groups.size(); ++group)
      for (const int node : groups[group]) group_of[at(node)] = static_cast<int>(group);
    for (const Path& path : paths_) {
      if (group_of[at(path.from)] < 0 || group_of[at(path.from)] != group_of[at(path.to)]) continue;
      double &sent = sends_[at(path.from)].fast, &received = receives_[at(path.to)].fast;
      sent = std::min(sent, path.middle + path.sender_spare);
      received = std::min(received, path.middle + path.receiver_spare);
    }
  }

  // By sample, the logarithm by which its rate is lower than what both nodes reach with the second of their partners, or in their group. That is
  // low only if the nodes are slow: with the best alone it may be chance.
  std::vector<double> lacksOf(const Figures& figures) const {
    std::vector<double> lacks;
    for (const Sample& sample : figures.samples) lacks.push_back(lackOf(sample));
    return lacks;
  }

  bool empty() const { return paths_.empty(); }
  double base() const { return base_; }
  double scatter() const { return scatter_; }
  double leastOfNode() const { return usual_threshold_; }

  void find(std::vector<Finding>& findings) const {
    for (size_t node = 0; node < sends_.size(); ++node) {
      addNode(findings, Part::kSends, static_cast<int>(node), sends_[node]);
      addNode(findings, Part::kReceives, static_cast<int>(node), receives_[node]);
    }
    const double threshold = std::max(limits_.least_of_path, kPathDeviations * scatter_);
    const size_t needed = samplesNeeded(threshold);
    for (const Path& path : paths_) {
      const double expected = expectedOf(path);
      if (!(path.best - expected > threshold) || !longEnough(path.best, expected)) continue;
      findings.push_back(
          {quantity_, Part::kPath, path.from, path.to, factorOf(path.best), 1, path.costs.size() >= needed});
    }
  }

  std::vector<int> slowNodes() const {
    std::vector<int> slow;
    for (size_t node = 0; node < sends_.size(); ++node)
      if (sends_[node].slow || receives_[node].slow) slow.push_back(static_cast<int>(node));
    return slow;
  }

  // Nodes that are slow with others and not among themselves. For rates that are the same in both directions.
  std::vector<std::vector<int>> groups() const {
    std::set<int> rest;
    for (const int node : slowNodes())
      if (sends_[at(node)].cost - base_ > kSlowSample) rest.insert(node);
    std::vector<std::vector<int>> groups;
    while (!rest.empty()) {
      const std::vector<int> group = takeGroup(rest);
      if (group.size() > 1) groups.push_back(group);
    }
    return groups;
  }

 private:
  static bool isBlamed(const Side& side) { return side.slow && side.samples >= kSamplesOfNode; }

  // The first of `rest` and those that are not slow with it, or with one that is not. Who is slow with most of these is slow itself.
  std::vector<int> takeGroup(std::set<int>& rest) const {
    std::vector<int> group = {*rest.begin()};
    rest.erase(rest.begin());
    for (size_t i = 0; i < group.size(); ++i)
      std::erase_if(rest, [&, member = group[i]](int node) {
        const bool joins = isWell(node, member) || isWell(member, node);
        if (joins) group.push_back(node);
        return joins;
      });
    const std::vector<int> all = group;
    std::erase_if(group, [&](int node) {
      ptrdiff_t well = 0, met = 0;
      for (const int other : all) {
        met += pathTo(node, other) ? 1 : 0;
        well += isWell(node, other) ? 1 : 0;
      }
      return 2 * well < met;
    });
    std::sort(group.begin(), group.end());
    return group;
  }

  // Of what the node sends to a slow one: whether it lacks less than half of what it lacks elsewhere.
  bool isWell(int node, int other) const {
    const Path* const path = pathTo(node, other);
    return path && path->middle - base_ < (sends_[at(node)].cost - base_) / 2;
  }
  const Path* pathTo(int node, int other) const {
    for (const Path* path : sends_[at(node)].paths)
      if (path->to == other) return path;
    return nullptr;
  }

  double lackOf(const Sample& sample) const {
    const auto path = std::ranges::lower_bound(paths_, std::pair(sample.from, sample.to), {}, endsOf);
    const bool is_measured = sample.bytes_per_s > 0 && std::isfinite(sample.bytes_per_s);
    if (!is_measured || path == paths_.end() || endsOf(*path) != std::pair(sample.from, sample.to)) return 0;
    return -std::log(sample.bytes_per_s) - std::max(sends_[at(sample.from)].fast - path->sender_spare,
                                                    receives_[at(sample.to)].fast - path->receiver_spare);
  }
  static size_t at(int node) { return static_cast<size_t>(node); }
  static std::vector<Side> sides(const Figures& figures) {
    return std::vector<Side>(static_cast<size_t>(figures.nodes));
  }

  static std::pair<int, int> endsOf(const Path& path) { return {path.from, path.to}; }

  // Then most partners of every node are slow, and no median shows it. Not for latencies: those of a busy machine look like that.
  void markSlowHalf() {
    std::vector<double> bests;
    for (const Path& path : paths_) bests.push_back(path.best);
    if (bests.empty()) return;
    std::ranges::sort(bests);
    const double best = bests[bests.size() / kBestPart];
    std::vector<int> fast_paths(sends_.size());
    for (const Path& path : paths_)
      if (path.best - best <= kSlowHalf) ++fast_paths[at(path.from)], ++fast_paths[at(path.to)];
    std::vector<bool> is_fast;
    for (const int count : fast_paths) is_fast.push_back(count > kPathsOfPair);
    const ptrdiff_t fast = std::ranges::count(is_fast, true);
    size_t among_fast = 0, not_fast = 0;
    for (const Path& path : paths_) {
      if (!is_fast[at(path.from)] || !is_fast[at(path.to)]) continue;
      ++among_fast;
      not_fast += path.best - best > kAsFast ? 1 : 0;
    }
    if (kFewPaths * not_fast > among_fast || fast < kLeastFast || 2 * fast != std::ssize(is_fast)) return;
    is_half_slow_ = true;
    for (size_t node = 0; node < is_fast.size(); ++node)
      sends_[node].slow = receives_[node].slow = !is_fast[node];
  }

  double expectedOf(const Path& path) const {
    // With two nodes, a slow node and a slow path look the same.
    if (sends_.size() == 2) return base_;
    return std::max({base_, sends_[at(path.from)].cost - path.sender_spare,
                     receives_[at(path.to)].cost - path.receiver_spare});
  }

  // Partners that are as fast as the side, and at least two: with one it could be the path.
  static void keepJudges(Side& side, double Path::*spare) {
    std::vector<double> spares;
    for (const Path* path : side.paths) spares.push_back(path->*spare);
    std::sort(spares.begin(), spares.end());
    std::erase_if(side.paths, [&](const Path* path) {
      return path->*spare > spares[std::min<size_t>(1, spares.size() - 1)];
    });
  }

  // The median over partners that are not slow themselves; over all partners if all are slow.
  static double costOf(const Side& side, const std::vector<Side>& others, bool is_sender) {
    std::vector<double> good;
    for (const Path* path : side.paths)
      if (!others[at(is_sender ? path->to : path->from)].slow) good.push_back(path->middle);
    if (good.empty())
      for (const Path* path : side.paths) good.push_back(path->middle);
    return medianOf(std::move(good));
  }

  // With the only partner, if there is no second.
  static double fastOf(const Side& side) {
    if (side.paths.empty()) return 0;
    double best = side.paths.front()->middle, second = std::numeric_limits<double>::infinity();
    for (const Path* path : std::span(side.paths).subspan(1)) {
      second = std::min(second, std::max(best, path->middle));
      best = std::min(best, path->middle);
    }
    return side.paths.size() > 1 ? second : best;
  }

  void refine() {
    std::vector<double> costs, usual;
    for (size_t node = 0; node < sends_.size(); ++node)
      for (auto [side, others] :
           {std::pair(&sends_[node], &receives_), std::pair(&receives_[node], &sends_)}) {
        if (side->paths.empty()) continue;
        side->cost = costOf(*side, *others, side == &sends_[node]);
        costs.push_back(side->cost);
        if (!is_half_slow_ || !side->slow) usual.push_back(side->cost);
      }
    base_ = medianOf(std::move(costs));
    deviation_of_nodes_ = deviationOf(std::move(usual), base_);
    std::vector<double> residuals;
    residuals.reserve(costs_.size());
    for (const Path& path : paths_)
      for (const double cost : path.costs) residuals.push_back(cost - expectedOf(path));
    scatter_ = deviationOf(residuals, 0);
    std::vector<double> thresholds;
    for (std::vector<Side>* all : {&sends_, &receives_})
      for (Side& side : *all) {
        if (side.paths.empty()) continue;
        thresholds.push_back(thresholdOf(side));
        side.slow =
            sends_.size() > 2 && side.cost - base_ > thresholds.back() && longEnough(side.cost, base_);
      }
    usual_threshold_ = medianOf(thresholds);
  }

  // Noise only slows. The more figures it slows overall, the more slow figures a path needs.
  size_t samplesNeeded(double threshold) const {
    double slow = 1, most = kSamplesOfPath;
    for (const Path& path : paths_)
      for (const double cost : path.costs) slow += cost - expectedOf(path) > threshold ? 1 : 0;
    if (slow < samples_)
      most = std::log(kPathByAccident / static_cast<double>(paths_.size())) / std::log(slow / samples_);
    return static_cast<size_t>(std::max<double>(kSamplesOfPath, std::ceil(most)));
  }

  double thresholdOf(const Side& side) const {
    // The error of two medians: the node's and the cluster's.
    const double error = 1.25 * scatter_ * (1 / std::sqrt(side.samples) + 1 / std::sqrt(samples_));
    return std::max(limits_.least_of_node, kNodeDeviations * std::max(error, deviation_of_nodes_));
  }

  bool longEnough(double cost, double expected) const {
    return quantity_ == Quantity::kRate || std::exp(cost) - std::exp(expected) > limits_.least_seconds;
  }

  double factorOf(double cost) const {
    return quantity_ == Quantity::kRate ? std::exp(base_ - cost) : std::exp(cost - base_);
  }

  void addNode(std::vector<Finding>& findings, Part part, int node, const Side& side) const {
    if (!side.slow) return;
    int partners = 0;
    for (const Path* path : side.paths) partners += path->middle - base_ > limits_.least_of_node / 2 ? 1 : 0;
    findings.push_back({quantity_, part, node, -1, factorOf(side.cost), partners, isBlamed(side)});
  }

  Quantity quantity_;
  Limits limits_;
  std::vector<double> costs_;  // of all paths, one after the other
  std::vector<Path> paths_;
  std::vector<Side> sends_, receives_;
  bool is_half_slow_ = false;  // then they do not count for how much nodes differ
  double samples_ = 0;
  double base_ = 0, scatter_ = 0, deviation_of_nodes_ = 0, usual_threshold_ = 0;
};

// As if all nodes were of the fastest kind.
Figures scaled(Figures figures) {
  for (Sample& sample : figures.samples) {
    const double share = figures.shareOf(sample.from, sample.to);
    sample.bytes_per_s /= share;
    sample.at_once_bytes_per_s /= share;
  }
  return figures;
}

Figures atOnce(Figures figures) {
  for (Sample& sample : figures.samples) sample.bytes_per_s = sample.at_once_bytes_per_s;
  return figures;
}

// Without the rounds in which even the better quarter of the pairs is slow: other programs slow all at once on a busy machine, and then
// nobody is slower than others.
Figures withoutPauses(Figures figures) {
  std::map<int, std::vector<double>> costs;  // by round
  for (const Sample& sample : figures.samples)
    if (sample.bytes_per_s > 0) costs[sample.round].push_back(-std::log(sample.bytes_per_s));
  std::map<int, double> levels;
  std::vector<double> all;
  for (auto& [round, of_round] : costs) all.push_back(levels[round] = quarterOf(std::move(of_round)));
  const double usual = medianOf(std::move(all));
  std::erase_if(figures.samples,
                [&](const Sample& sample) { return levels[sample.round] - usual > kSlowSample; });
  return figures;
}

Model ratesOf(const Figures& figures) {
  return Model(figures, Quantity::kRate, kRateLimits);
}

bool crosses(const std::vector<int>& nodes, const Sample& sample) {
  const auto is_behind = [&](int node) { return std::binary_search(nodes.begin(), nodes.end(), node); };
  return is_behind(sample.from) != is_behind(sample.to);
}

// Adds the uplink of these nodes, and marks the samples that it slows. What they lack while both nodes send at once, and while one does.
void addUplink(const Figures& figures, const std::vector<double>& at_once, const std::vector<double>& alone,
               const SharedLink& link, std::vector<Uplink>& uplinks, std::vector<bool>& slowed) {
  std::vector<double> slow;
  int well = 0, sent = 0, received = 0;  // the last two: slow ones while one node sends
  for (size_t i = 0; i < figures.samples.size(); ++i) {
    const Sample& sample = figures.samples[i];
    if (!crosses(link.nodes, sample)) continue;
    const bool is_slow = at_once[i] > kSlowSample;
    if (is_slow) slow.push_back(at_once[i]), slowed[i] = true;
    well += is_slow ? 0 : 1;
    const bool is_sent = std::binary_search(link.nodes.begin(), link.nodes.end(), sample.from);
    if (alone[i] > kSlowSample) ++(is_sent ? sent : received);
  }
  const double factor = std::exp(-medianOf(std::move(slow)));
  const bool only_at_once = well >= kWellSamples;
  if (kOnlyOther * (sent + 1) >= received)
    uplinks.push_back({Part::kSends, link.nodes, factor, only_at_once, link.confirmed});
  if (kOnlyOther * (received + 1) >= sent)
    uplinks.push_back({Part::kReceives, link.nodes, factor, only_at_once, link.confirmed});
}

// See Verdict. `slowed`: by an uplink.
std::vector<int> slowRounds(const Figures& figures, const std::vector<double>& lacks,
                            const std::vector<bool>& slowed) {
  using Pairs = std::vector<std::pair<int, int>>;
  struct Round {
    Pairs pairs;  // in ascending order
    size_t slow = 0;
  };
  std::map<int, Round> rounds;
  for (size_t i = 0; i < figures.samples.size(); ++i) {
    const Sample& sample = figures.samples[i];
    if (sample.from > sample.to) continue;  // once for its pair
    Round& round = rounds[sample.round];
    round.pairs.emplace_back(sample.from, sample.to);
    round.slow += lacks[i] > kSlowSample && !slowed[i] ? 1 : 0;
  }
  for (auto& [number, round] : rounds) std::ranges::sort(round.pairs);
  const auto is_slow = [](const Round& round) {
    return round.slow > 1 &&
           static_cast<double>(round.slow) >= kSlowRound * static_cast<double>(round.pairs.size());
  };
  std::map<Pairs, int> slow;  // the last round of these pairs
  for (const auto& [number, round] : rounds)
    if (is_slow(round)) slow[round.pairs] = number;
  for (const auto& [number, round] : rounds)
    if (!is_slow(round)) slow.erase(round.pairs);
  std::vector<int> all;
  for (const auto& [pairs, number] : slow) all.push_back(number);
  return all;
}

// The samples that no uplink slows.
Figures withoutUplinks(const Figures& figures, Verdict& verdict) {
  const Figures both = atOnce(figures), steady = withoutPauses(both);
  Model all = ratesOf(both);
  std::optional<Model> of_steady;
  if (steady.samples.size() < both.samples.size()) of_steady = ratesOf(steady);
  const Model& at_once = of_steady ? *of_steady : all;
  verdict.slow_at_once = at_once.slowNodes();
  const std::vector<std::vector<int>> groups = at_once.groups();
  all.knowGroups(groups);
  const std::vector<double> lacks = all.lacksOf(both);
  const std::vector<SharedLink> links = findSharedLinks(both, lacks, kSlowSample, groups);
  std::vector<bool> slowed(figures.samples.size());
  if (!links.empty()) {
    std::vector<std::vector<int>> behind;
    for (const SharedLink& link : links) behind.push_back(link.nodes);
    Model one_sends = ratesOf(figures);
    one_sends.knowGroups(behind);
    const std::vector<double> alone = one_sends.lacksOf(figures);
    for (const SharedLink& link : links) addUplink(figures, lacks, alone, link, verdict.uplinks, slowed);
  }
  verdict.slow_rounds = slowRounds(figures, lacks, slowed);
  if (links.empty()) return figures;
  Figures rest{figures.nodes, {}, figures.shares};
  for (size_t i = 0; i < slowed.size(); ++i)
    if (!slowed[i]) rest.samples.push_back(figures.samples[i]);
  return rest;
}

// Whether both blame the same, on whatever rail.
bool isSame(const Finding& a, const Finding& b) {
  return a.quantity == b.quantity && a.part == b.part && a.node == b.node && a.to == b.to;
}

// A doubtful link may not be there: what is slow without the samples that it slowed has to be slow with them, too.
void doubt(const Model& with_all, std::vector<Finding>& findings) {
  std::vector<Finding> sure;
  with_all.find(sure);
  std::erase_if(sure, [](const Finding& finding) { return !finding.confirmed; });
  for (Finding& finding : findings)
    finding.confirmed &= std::ranges::any_of(sure, [&](const Finding& one) { return isSame(one, finding); });
}

// Wrong bytes: a node with wrong bytes at two partners is to blame; otherwise the path.
void findWrongData(const Figures& figures, std::vector<Finding>& findings) {
  std::set<std::pair<int, int>> wrong;
  for (const Sample& sample : figures.samples)
    if (sample.wrong_bytes > 0) wrong.insert({sample.from, sample.to});
  while (!wrong.empty()) {
    std::map<std::pair<Part, int>, int> partners;
    for (const auto& [from, to] : wrong) ++partners[{Part::kSends, from}], ++partners[{Part::kReceives, to}];
    const auto& [worst, seen] = *std::max_element(
        partners.begin(), partners.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto [part, node] = worst;
    if (seen < 2) break;
    findings.push_back({Quantity::kData, part, node, -1, 1, seen, true});
    std::erase_if(wrong, [part = part, node = node](const auto& path) {
      return (part == Part::kSends ? path.first : path.second) == node;
    });
  }
  for (const auto& [from, to] : wrong)
    findings.push_back({Quantity::kData, Part::kPath, from, to, 1, 1, true});
}

void sortFindings(Verdict& verdict) {
  std::ranges::stable_sort(verdict.findings, {},
                           [](const Finding& one) { return std::tuple(one.node, one.quantity, one.part); });
}

}  // namespace

bool anyUnconfirmed(const Verdict& verdict) {
  const auto is_unconfirmed = [](const auto& one) { return !one.confirmed; };
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), is_unconfirmed) ||
         std::any_of(verdict.uplinks.begin(), verdict.uplinks.end(), is_unconfirmed);
}

void addRails(Verdict& verdict, const std::vector<Verdict>& rails) {
  const auto on_all = [&](const auto& list, const auto& one, const auto& is_same) {
    return std::all_of(rails.begin(), rails.end(), [&](const Verdict& rail) {
      return std::any_of((rail.*list).begin(), (rail.*list).end(),
                         [&](const auto& other) { return is_same(one, other); });
    });
  };
  const auto is_same_uplink = [](const Uplink& a, const Uplink& b) {
    return a.part == b.part && a.nodes == b.nodes;
  };
  for (int rail = 0; rail < std::ssize(rails); ++rail) {
    const Verdict& alone = rails[static_cast<size_t>(rail)];
    for (Finding finding : alone.findings) {
      if (on_all(&Verdict::findings, finding, isSame)) continue;
      finding.rail = rail;
      verdict.findings.push_back(finding);
    }
    for (Uplink uplink : alone.uplinks) {
      if (on_all(&Verdict::uplinks, uplink, is_same_uplink)) continue;
      uplink.rail = rail;
      verdict.uplinks.push_back(uplink);
    }
  }
}

void addFindings(Verdict& verdict, const std::vector<Finding>& findings) {
  verdict.findings.insert(verdict.findings.end(), findings.begin(), findings.end());
  sortFindings(verdict);
}

bool isOfRail(const Verdict& verdict, const Finding& finding) {
  return finding.rail < 0 &&
         std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& other) {
           return other.rail >= 0 && other.confirmed && isSame(other, finding);
         });
}

bool isOfUplink(const Verdict& verdict, const Finding& finding) {
  return finding.quantity == Quantity::kRate && finding.part != Part::kPath &&
         std::any_of(verdict.uplinks.begin(), verdict.uplinks.end(), [&](const Uplink& uplink) {
           return uplink.confirmed && uplink.part == finding.part && uplink.rail == finding.rail &&
                  std::binary_search(uplink.nodes.begin(), uplink.nodes.end(), finding.node);
         });
}

bool isSlowNode(const Verdict& verdict, const Finding& finding) {
  return finding.confirmed && finding.quantity == Quantity::kRate && finding.part != Part::kPath &&
         finding.rail < 0 && !isOfUplink(verdict, finding);
}

Verdict diagnose(const Figures& all) {
  Verdict verdict;
  const Figures measured = scaled(all), figures = withoutUplinks(measured, verdict);
  const Model rates(figures, Quantity::kRate, kRateLimits);
  if (!rates.empty()) {
    verdict.bytes_per_s = std::exp(-rates.base());
    verdict.scatter = std::expm1(rates.scatter());
    verdict.least_loss = -std::expm1(-rates.leastOfNode());
    rates.find(verdict.findings);
    if (!std::ranges::all_of(verdict.uplinks, &Uplink::confirmed)) doubt(ratesOf(measured), verdict.findings);
  }
  const Model latencies(figures, Quantity::kLatency, kLatencyLimits);
  if (!latencies.empty()) {
    verdict.latency_s = std::exp(latencies.base());
    latencies.find(verdict.findings);
  }
  findLosses(figures, verdict.findings);
  findWrongData(all, verdict.findings);
  sortFindings(verdict);
  return verdict;
}

}  // namespace horing::check
