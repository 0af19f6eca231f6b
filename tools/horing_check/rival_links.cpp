#include "horing_check/rival_links.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "horing_check/link_model.h"

namespace horing::check {

namespace {

using namespace link_model;

// Of the logarithm of a pair's rate across a busy link: pairs do not share it equally.
constexpr double kSpreadOfPairs = 0.25;
// The probability of a round that pauses, and that a pair is slow without a reason.
constexpr double kPauses = 0.1, kSlowByChance = 0.05;
// For the time that it takes: pairs, what a link may carry, and pairs times nodes of which each may change its side.
constexpr size_t kMostRates = 6'000, kMostOfLink = 8, kMostChanges = 20'000;
constexpr int kSweeps = 2;

// Groups of nodes, each behind a link.
struct LinkSet {
  std::vector<int> link_of;  // by node; -1: none
  std::vector<int> sizes;    // by link
  std::vector<double> capacities{};
  double likelihood = -std::numeric_limits<double>::infinity();

  std::vector<NodeGroup> groups() const {
    std::vector<NodeGroup> all(sizes.size());
    for (size_t node = 0; node < link_of.size(); ++node)
      if (link_of[node] >= 0) all[static_cast<size_t>(link_of[node])].push_back(static_cast<int>(node));
    return all;
  }
};

class Rivals {
 public:
  Rivals(int nodes, const std::vector<PairRate>& pairs, const std::vector<std::vector<NodeGroup>>& sets,
         double as_busy)
      : as_busy_(as_busy), is_behind_(static_cast<size_t>(nodes)) {
    for (const std::vector<NodeGroup>& set : sets)
      for (const NodeGroup& group : set)
        for (const int node : group) is_behind_[static_cast<size_t>(node)] = true;
    // To all others the sets do not matter.
    for (const PairRate& pair : pairs) {
      if (!is_behind_[static_cast<size_t>(pair.one)] && !is_behind_[static_cast<size_t>(pair.other)])
        continue;
      if (pair.round >= rounds_.size()) rounds_.resize(pair.round + 1);
      rounds_[pair.round].push_back(pair);
    }
    const size_t rates = thin();
    const auto behind = static_cast<size_t>(std::ranges::count(is_behind_, true));
    may_change_ = behind * rates <= kMostChanges;
  }

  LinkSet likeliest(const std::vector<NodeGroup>& groups) const {
    LinkSet set = of(groups);
    fit(set);
    for (int sweep = 0; may_change_ && sweep < kSweeps && settle(set); ++sweep) fit(set);
    return set;
  }
  LinkSet fitted(const std::vector<NodeGroup>& groups) const {
    LinkSet set = of(groups);
    fit(set);
    return set;
  }

 private:
  // Leaves pairs of rounds evenly over the time, since links may become slow later: of every odd number of rounds one, since every other
  // round may confirm. How many.
  size_t thin() {
    size_t rates = 0;
    for (const std::vector<PairRate>& round : rounds_) rates += round.size();
    const size_t one_of = (rates + kMostRates - 1) / kMostRates | 1;
    rates = 0;
    for (size_t round = 0; round < rounds_.size(); ++round) {
      if (round % one_of != 0) rounds_[round].clear();
      rates += rounds_[round].size();
    }
    return rates;
  }

  LinkSet of(const std::vector<NodeGroup>& groups) const {
    LinkSet set{std::vector<int>(is_behind_.size(), -1), {}};
    for (const NodeGroup& group : groups) {
      for (const int node : group)
        set.link_of[static_cast<size_t>(node)] = static_cast<int>(set.sizes.size());
      set.sizes.push_back(static_cast<int>(group.size()));
    }
    return set;
  }

  // Calls `cross(link)` for each link between both nodes.
  static void crossed(const LinkSet& set, const PairRate& pair, auto&& cross) {
    const int one = set.link_of[static_cast<size_t>(pair.one)],
              other = set.link_of[static_cast<size_t>(pair.other)];
    if (one == other) return;
    if (one >= 0) cross(static_cast<size_t>(one));
    if (other >= 0) cross(static_cast<size_t>(other));
  }

  // What the links carry: of the sums that crossed when most of these pairs were slow, those that explain most.
  void fit(LinkSet& set) const {
    std::vector<std::vector<double>> sums(set.sizes.size());
    for (const std::vector<PairRate>& round : rounds_) {
      std::vector<double> rates(sums.size());
      std::vector<int> odds(sums.size());  // slow ones less others
      for (const PairRate& pair : round)
        crossed(set, pair,
                [&](size_t link) { rates[link] += pair.rate, odds[link] += pair.is_slow ? 1 : -1; });
      for (size_t link = 0; link < sums.size(); ++link)
        if (odds[link] > 0) sums[link].push_back(rates[link]);
    }
    set.capacities.assign(sums.size(), std::numeric_limits<double>::infinity());
    for (size_t link = 0; link < sums.size(); ++link) {
      std::ranges::sort(sums[link]);
      const size_t all = sums[link].size(), most = std::min(all, kMostOfLink);
      for (size_t i = 0; i < most; ++i) sums[link][i] = sums[link][(2 * i + 1) * all / (2 * most)];
      sums[link].resize(most);
      if (most > 0) set.capacities[link] = sums[link][most / 2];
    }
    set.likelihood = likelihoodOf(set);
    for (int sweep = 0; sweep < kSweeps; ++sweep)
      for (size_t link = 0; link < sums.size(); ++link)
        for (const double sum : sums[link]) {
          const double before = std::exchange(set.capacities[link], sum), now = likelihoodOf(set);
          if (now > set.likelihood)
            set.likelihood = now;
          else
            set.capacities[link] = before;
        }
  }

  // Puts nodes behind other links, or none, one by one, as long as that explains more. Whether anything changed.
  bool settle(LinkSet& set) const {
    bool changed = false;
    for (size_t node = 0; node < is_behind_.size(); ++node) {
      if (!is_behind_[node]) continue;
      for (int to = -1; to < std::ssize(set.sizes); ++to) {
        const int from = set.link_of[node];
        if (to == from || (from >= 0 && set.sizes[static_cast<size_t>(from)] <= 2)) continue;
        change(set, node, to);
        const double now = likelihoodOf(set);
        if (now > set.likelihood)
          set.likelihood = now, changed = true;
        else
          change(set, node, from);
      }
    }
    return changed;
  }
  static void change(LinkSet& set, size_t node, int to) {
    const int from = std::exchange(set.link_of[node], to);
    if (from >= 0) --set.sizes[static_cast<size_t>(from)];
    if (to >= 0) ++set.sizes[static_cast<size_t>(to)];
  }

  double likelihoodOf(const LinkSet& set) const {
    double all = 0;
    for (const int size : set.sizes) all -= logOfChoices(static_cast<int>(is_behind_.size()), size);
    std::vector<int> crossing(set.sizes.size());
    for (const std::vector<PairRate>& round : rounds_) {
      std::ranges::fill(crossing, 0);
      for (const PairRate& pair : round) crossed(set, pair, [&](size_t link) { ++crossing[link]; });
      double moves = log_no_pause_, pauses = log_pause_;
      for (const PairRate& pair : round) {
        double share = 1 / as_busy_;
        crossed(set, pair,
                [&](size_t link) { share = std::min(share, set.capacities[link] / crossing[link]); });
        const bool is_busy = share < 1 / as_busy_;
        moves += (is_busy ? busy_ : calm_).of(pair.is_slow);
        pauses += busy_.of(pair.is_slow);
        if (!pair.is_slow) continue;
        moves += is_busy ? of_share_.logOfMost(std::log(pair.rate / share)) : log_anywhere_;
        pauses += log_anywhere_;
      }
      all += logSum(moves, pauses);
    }
    return all;
  }

  struct Chance {
    double yes, no;
    explicit Chance(double chance) : yes(std::log(chance)), no(std::log1p(-chance)) {}
    double of(bool is_slow) const { return is_slow ? yes : no; }
  };

  const Chance busy_{kSlowThen}, calm_{kSlowByChance};
  const Spread of_share_{0, kSpreadOfPairs};
  const double log_anywhere_ = std::log(kAnywhere), log_pause_ = std::log(kPauses),
               log_no_pause_ = std::log(1 - kPauses);
  double as_busy_;
  std::vector<bool> is_behind_;  // by node, in any set
  std::vector<std::vector<PairRate>> rounds_;
  bool may_change_ = false;
};

}  // namespace

std::vector<LikelyLink> likeliestLinks(int nodes, const std::vector<PairRate>& pairs,
                                       const std::vector<std::vector<NodeGroup>>& sets, double as_busy) {
  const Rivals rivals(nodes, pairs, sets, as_busy);
  std::vector<LinkSet> all;
  for (const std::vector<NodeGroup>& groups : sets) all.push_back(rivals.likeliest(groups));
  const LinkSet& best = *std::ranges::max_element(all, {}, &LinkSet::likelihood);
  const std::vector<NodeGroup> groups = best.groups();
  std::vector<LikelyLink> links;
  for (const NodeGroup& group : groups) {
    std::vector<NodeGroup> others = groups;
    std::erase(others, group);
    double rival = rivals.fitted(others).likelihood;
    for (const LinkSet& set : all) {
      const std::vector<NodeGroup> theirs = set.groups();
      if (std::ranges::count(theirs, group) == 0) rival = std::max(rival, set.likelihood);
    }
    links.push_back({group, best.likelihood - rival});
  }
  return links;
}

}  // namespace horing::check
