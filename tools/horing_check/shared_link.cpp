#include "horing_check/shared_link.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "horing_check/link_model.h"
#include "horing_check/rival_links.h"

namespace horing::check {

namespace {

using namespace link_model;

// Of the logarithm of what crosses a busy link, and of how much a pause slows; each pause is as good as one more of the latter.
constexpr double kSpreadOfLink = 0.1, kSpreadOfPauses = 0.5, kLeastSpread = 0.15;
// With less, single nodes will not make it a link.
constexpr double kNear = 20;
constexpr int kFits = 4, kMostLinks = 8;
constexpr size_t kMostPasses = 5;  // fewer over many nodes
// For the time that it takes: rounds of which two each suggest groups, and pieces of these that may be on either side; groups, and such as are
// given, for each of them, fewer of many nodes; the best that are looked at in full, more while none is a link, and what they may carry.
constexpr size_t kMostSlowRounds = 10, kMostPieces = 3, kLeastGroups = 4, kMostGroups = 64, kMostGiven = 4,
                 kMostFinal = 3, kMostTried = 12, kMostCapacities = 12;
constexpr double kMostSearchWork = 2e5;
constexpr int kSteps = 64;  // of how many pairs cross

using Group = std::vector<bool>;  // by node: whether it is behind the link

struct Meeting {
  size_t round, other;
  bool is_slow;
  double rate;  // of what both nodes can reach
};
struct Count {
  int pairs = 0, slow = 0;
  double rate = 0;
};

// All pairs, by node and by round.
class Meetings {
 public:
  Meetings(const Figures& figures, const std::vector<double>& lacks, double threshold)
      : of_node_(static_cast<size_t>(figures.nodes)) {
    std::map<int, size_t> places;  // of rounds
    for (size_t i = 0; i < figures.samples.size(); ++i) {
      const Sample& sample = figures.samples[i];
      if (sample.from >= sample.to || !(sample.at_once_bytes_per_s > 0)) continue;  // once for its pair
      const size_t round = places.try_emplace(sample.round, places.size()).first->second;
      const auto from = static_cast<size_t>(sample.from), to = static_cast<size_t>(sample.to);
      const double rate = std::exp(-std::max(lacks[i], 0.0));
      of_node_[from].push_back({round, to, lacks[i] > threshold, rate});
      of_node_[to].push_back({round, from, lacks[i] > threshold, rate});
    }
    of_round_.resize(places.size());
    countRounds();
  }

  size_t nodes() const { return of_node_.size(); }
  const std::vector<Meeting>& of(size_t node) const { return of_node_[node]; }
  const std::vector<Count>& rounds() const { return of_round_; }

  // What crosses, by round.
  std::vector<Count> crossing(const Group& group) const {
    std::vector<Count> counts(of_round_.size());
    for (size_t node = 0; node < of_node_.size(); ++node)
      for (const Meeting& meeting : of_node_[node])
        if (meeting.other > node && group[node] != group[meeting.other])
          add(counts[meeting.round], meeting, 1);
    return counts;
  }
  std::vector<PairRate> rates() const {
    std::vector<PairRate> pairs;
    for (size_t node = 0; node < of_node_.size(); ++node)
      for (const Meeting& meeting : of_node_[node])
        if (meeting.other > node)
          pairs.push_back({meeting.round, static_cast<int>(node), static_cast<int>(meeting.other),
                           meeting.is_slow, meeting.rate});
    return pairs;
  }
  // Each node is in that of those with which it mostly was not slow.
  std::vector<NodeGroup> groups() const {
    std::vector<NodeGroup> all;
    std::vector<bool> seen(of_node_.size());
    for (size_t start = 0; start < of_node_.size(); ++start) {
      if (seen[start]) continue;
      NodeGroup group = {static_cast<int>(start)};
      seen[start] = true;
      for (size_t next = 0; next < group.size(); ++next) {
        std::map<size_t, int> odds;  // of being slow, by other node
        for (const Meeting& meeting : of_node_[static_cast<size_t>(group[next])])
          odds[meeting.other] += meeting.is_slow ? 1 : -1;
        for (const auto& [other, slow] : odds)
          if (slow < 0 && !seen[other]) seen[other] = true, group.push_back(static_cast<int>(other));
      }
      std::ranges::sort(group);
      all.push_back(std::move(group));
    }
    return all;
  }
  static void add(Count& count, const Meeting& meeting, int times) {
    count.pairs += times;
    count.slow += meeting.is_slow ? times : 0;
    count.rate += times * meeting.rate;
  }
  // Leaves out the slow pairs that cross in these rounds.
  void explain(const Group& group, const std::vector<bool>& in_rounds) {
    for (size_t node = 0; node < of_node_.size(); ++node)
      std::erase_if(of_node_[node], [&](const Meeting& meeting) {
        return meeting.is_slow && in_rounds[meeting.round] && group[node] != group[meeting.other];
      });
    countRounds();
  }

 private:
  void countRounds() {
    of_round_.assign(of_round_.size(), {});
    for (size_t node = 0; node < of_node_.size(); ++node)
      for (const Meeting& meeting : of_node_[node])
        if (meeting.other > node) add(of_round_[meeting.round], meeting, 1);
  }

  std::vector<std::vector<Meeting>> of_node_;
  std::vector<Count> of_round_;
};

double meanLevel(const Count& count) {
  return std::log(std::max(count.rate, 1e-9) / count.pairs);
}

// The logarithm of the probability that so many of these pairs are slow, and these.
struct Flags {
  double slow, not_slow;

  explicit Flags(double chance) : slow(std::log(chance)), not_slow(std::log1p(-chance)) {}
  double of(const Count& count) const { return count.slow * slow + (count.pairs - count.slow) * not_slow; }
};

// The probabilities of the model, in logarithms.
struct Chances {
  Flags pauses{0.1}, slow{0.05};
  Spread level{-0.7, kSpreadOfPauses};  // of the logarithm of rates in pauses
};

// A link of a group, with what crosses it.
struct Candidate {
  Group group;
  std::vector<Count> crossing;
  int behind = 0;       // nodes of the group
  double capacity = 0;  // in pairs that move as much as they can; 0: no link
  Chances chances{};
  // Of the logarithm of the likelihood, less that of the choice; and without the one pair that speaks most for the link: it may be a slow path.
  double gain = -std::numeric_limits<double>::infinity(), least_gain = gain;
};

class Search {
 public:
  Search(Meetings meetings, double threshold)
      : meetings_(std::move(meetings)), as_busy_(std::exp(threshold)) {
    for (size_t size = 0; size <= meetings_.nodes(); ++size)
      chooses_.push_back(logOfChoices(static_cast<int>(meetings_.nodes()), static_cast<int>(size)));
    prepare();
  }

  std::vector<SharedLink> links(const std::vector<std::vector<int>>& groups) {
    std::vector<SharedLink> found;
    taken_.assign(meetings_.nodes(), false);
    const Meetings all = meetings_;
    while (found.size() < kMostLinks) {
      const Candidate best = search(groups);
      if (!(best.least_gain > 0)) break;
      found.push_back({nodesOf(best.group), best.least_gain > kSure});
      for (const int node : found.back().nodes) taken_[static_cast<size_t>(node)] = any_taken_ = true;
      std::vector<bool> busy;
      for (const Count& count : best.crossing) busy.push_back(isBusy(count, best.capacity));
      meetings_.explain(best.group, busy);
      prepare();
    }
    found = likeliest(all, std::move(found));
    std::ranges::sort(found, {}, &SharedLink::nodes);
    return found;
  }

 private:
  // Chooses between these links and others that may explain the same: nodes that are behind none of them may be behind one in place of one of
  // them, or behind one more; or each group of nodes that are not slow among themselves is behind one.
  std::vector<SharedLink> likeliest(const Meetings& all, std::vector<SharedLink> found) const {
    if (found.empty()) return found;
    std::vector<NodeGroup> links;
    for (const SharedLink& link : found) links.push_back(link.nodes);
    std::vector<std::vector<NodeGroup>> sets = {links};
    addSetsWithRest(links, sets);
    addSetOfGroups(all, links, sets);
    if (sets.size() == 1) return found;
    const bool are_sure = std::ranges::all_of(found, &SharedLink::confirmed);
    std::vector<SharedLink> chosen;
    for (LikelyLink& link : likeliestLinks(static_cast<int>(all.nodes()), all.rates(), sets, as_busy_)) {
      const auto before = std::ranges::find(found, link.nodes, &SharedLink::nodes);
      const bool was_sure = before == found.end() ? are_sure : before->confirmed;
      chosen.push_back({std::move(link.nodes), was_sure && link.lead > kSure});
    }
    return chosen;
  }
  void addSetsWithRest(const std::vector<NodeGroup>& links, std::vector<std::vector<NodeGroup>>& sets) const {
    NodeGroup rest;
    for (size_t node = 0; node < taken_.size(); ++node)
      if (!taken_[node]) rest.push_back(static_cast<int>(node));
    if (links.size() < 2 || !isSome(static_cast<int>(rest.size()))) return;
    sets.push_back(links);
    sets.back().push_back(rest);
    for (size_t link = 0; link < links.size(); ++link) {
      sets.push_back(links);
      sets.back()[link] = rest;
    }
  }
  // Of many, only those of which nodes are behind the links that were found.
  void addSetOfGroups(const Meetings& all, const std::vector<NodeGroup>& links,
                      std::vector<std::vector<NodeGroup>>& sets) const {
    std::vector<NodeGroup> groups = all.groups();
    std::erase_if(groups, [&](const NodeGroup& group) { return !isSome(static_cast<int>(group.size())); });
    if (groups.size() > kMostLinks)
      std::erase_if(groups, [&](const NodeGroup& group) {
        return std::ranges::none_of(group, [&](int node) { return taken_[static_cast<size_t>(node)]; });
      });
    if (!groups.empty() && !std::ranges::is_permutation(groups, links)) sets.push_back(std::move(groups));
  }

  // Without a link.
  void prepare() {
    none_ = {};
    none_.crossing.resize(meetings_.rounds().size());
    fit(none_);
    pause_odds_.clear();
    for (size_t round = 0; round < none_.crossing.size(); ++round) {
      const Parts parts = partsOf(meetings_.rounds()[round], none_.chances, {}, 0, false);
      pause_odds_.push_back(parts.pauses - parts.moves);
    }
    most_pairs_ = 1;
    for (const Count& round : meetings_.rounds()) most_pairs_ = std::max(most_pairs_, round.pairs);
    const auto work = static_cast<double>(meetings_.nodes() * std::max<size_t>(none_.crossing.size(), 1));
    most_passes_ = std::clamp(static_cast<size_t>(kMostSearchWork / work), size_t{1}, kMostPasses);
    most_groups_ = std::clamp(static_cast<size_t>(kMostSearchWork / work), kLeastGroups, kMostGroups);
  }

  bool isBusy(const Count& crossing, double capacity) const {
    return capacity > 0 && crossing.pairs > as_busy_ * capacity;
  }

  // The logarithms of the likelihoods of a round that did not pause, and of one that did. Of a round in which so many cross that a link
  // might be busy (`counts_sum`) their sum counts, too. `unknown`: crosses, and counts in the sum alone.
  struct Parts {
    double moves, pauses;
  };
  Parts partsOf(Count rest, const Chances& chances, const Count& crossing, double capacity, bool counts_sum,
                const Count& unknown = {}) const {
    Parts parts{chances.pauses.not_slow, chances.pauses.slow + slow_then_.of(rest)};
    const double level = counts_sum ? meanLevel(crossing) : 0;
    if (counts_sum) parts.pauses += chances.level.logOf(level);
    if (isBusy(crossing, capacity)) {
      rest.pairs -= crossing.pairs;
      rest.slow -= crossing.slow;
      const double off = level - std::log(capacity / crossing.pairs);
      parts.moves += slow_then_.of(crossing) + of_sum_.logOfMost(off);
    } else if (counts_sum) {
      parts.moves += log_anywhere_;
    }
    parts.moves +=
        chances.slow.of(rest) - (isBusy(crossing, capacity) ? slow_then_ : chances.slow).of(unknown);
    parts.pauses -= slow_then_.of(unknown);
    return parts;
  }

  // The chances that make the figures most likely, and a little more chance of everything.
  void fit(Candidate& candidate) const {
    Chances& chances = candidate.chances;
    for (int i = 0; i < kFits; ++i) {
      double pauses = 0, slow = 1, pairs = 20, levels = 0, squares = 0;
      for (size_t round = 0; round < candidate.crossing.size(); ++round) {
        Count rest = meetings_.rounds()[round];
        if (rest.pairs == 0) continue;
        const Count& crossing = candidate.crossing[round];
        const bool is_busy = isBusy(crossing, candidate.capacity);
        const Parts parts =
            partsOf(meetings_.rounds()[round], chances, crossing, candidate.capacity, is_busy);
        const double paused = 1 / (1 + std::exp(parts.moves - parts.pauses)), level = meanLevel(rest);
        if (is_busy) rest.pairs -= crossing.pairs, rest.slow -= crossing.slow;
        pauses += paused;
        slow += (1 - paused) * rest.slow;
        pairs += (1 - paused) * rest.pairs;
        levels += paused * level;
        squares += paused * level * level;
      }
      const auto rounds = static_cast<double>(candidate.crossing.size());
      chances.pauses = Flags(std::min((pauses + 0.5) / (rounds + 1), 0.95));
      chances.slow = Flags(std::min(slow / pairs, kSlowThen / 2));
      const double middle = pauses > 0.1 ? levels / pauses : chances.level.middle,
                   off = std::max(squares - pauses * middle * middle, 0.0),
                   variance = (off + kSpreadOfPauses * kSpreadOfPauses) / (pauses + 1);
      chances.level = Spread(middle, std::max(std::sqrt(variance), kLeastSpread));
    }
  }

  double gainOf(const Candidate& candidate, size_t round, const Count& unknown = {}) const {
    const Count &all = meetings_.rounds()[round], &crossing = candidate.crossing[round];
    const bool is_busy = isBusy(crossing, candidate.capacity);
    const Parts with = partsOf(all, candidate.chances, crossing, candidate.capacity, is_busy, unknown),
                without = partsOf(all, none_.chances, crossing, 0, is_busy, unknown);
    return logSum(with.moves, with.pauses) - logSum(without.moves, without.pauses);
  }
  double gainOf(const Candidate& candidate) const {
    double gain = 0;
    for (size_t round = 0; round < candidate.crossing.size(); ++round) gain += gainOf(candidate, round);
    return gain - chooses_[static_cast<size_t>(candidate.behind)];
  }

  double gainWithoutOnePair(const Candidate& candidate) const {
    double most = 0;
    for (size_t node = 0; node < meetings_.nodes(); ++node) {
      std::map<size_t, double> by_other;
      for (const Meeting& meeting : meetings_.of(node)) {
        if (meeting.other < node || candidate.group[node] == candidate.group[meeting.other]) continue;
        Count unknown;
        Meetings::add(unknown, meeting, 1);
        by_other[meeting.other] +=
            gainOf(candidate, meeting.round) - gainOf(candidate, meeting.round, unknown);
      }
      for (const auto& [other, gain] : by_other) most = std::max(most, gain);
    }
    return candidate.gain - most;
  }

  // Of the sums that crossed when most were slow, that which explains most.
  void judge(Candidate& candidate) const {
    candidate.crossing = meetings_.crossing(candidate.group);
    std::vector<double> sums;
    for (const Count& count : candidate.crossing)
      if (count.slow >= 2 && 2 * count.slow > count.pairs) sums.push_back(count.rate);
    std::ranges::sort(sums);
    const size_t most = std::min(sums.size(), kMostCapacities);
    double capacity = 0, gain = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < most; ++i) {
      candidate.capacity = sums[(2 * i + 1) * sums.size() / (2 * most)];
      const double now = gainOf(candidate);
      if (now > gain) gain = now, capacity = candidate.capacity;
    }
    candidate.capacity = capacity;
    fit(candidate);
    candidate.gain = capacity > 0 ? gainOf(candidate) : gain;
  }

  // Adds nodes, and removes some, one by one, as long as that explains more. Whether anything changed.
  bool settle(Candidate& candidate, double (Search::*gain)(const Candidate&) const) const {
    bool changed = false;
    for (size_t node = 0; node < meetings_.nodes(); ++node) {
      if (taken_[node]) continue;
      change(candidate, node);
      const double now = isSome(candidate.behind) ? (this->*gain)(candidate) : candidate.gain;
      if (now > candidate.gain)
        candidate.gain = now, changed = true;
      else
        change(candidate, node);
    }
    return changed;
  }
  void change(Candidate& candidate, size_t node) const {
    for (const Meeting& meeting : meetings_.of(node))
      Meetings::add(candidate.crossing[meeting.round], meeting,
                    candidate.group[node] != candidate.group[meeting.other] ? -1 : 1);
    candidate.group[node] = !candidate.group[node];
    candidate.behind += candidate.group[node] ? 1 : -1;
  }

  // The same by the numbers of slow pairs alone, in the rounds in which at least so many cross as explains most: quick.
  double roughGain(const Candidate& candidate) const {
    std::array<double, kSteps + 1> gains{};
    int most = 0;
    for (size_t round = 0; round < candidate.crossing.size(); ++round) {
      const Count& count = candidate.crossing[round];
      if (count.pairs == 0) continue;
      const double gain = slow_then_.of(count) - none_.chances.slow.of(count), odds = pause_odds_[round];
      const int step = most_pairs_ <= kSteps ? count.pairs : count.pairs * kSteps / most_pairs_;
      gains[static_cast<size_t>(step)] += std::max(gain, odds) - std::max(0.0, odds);
      most = std::max(most, step);
    }
    double sum = gains[static_cast<size_t>(most)], best = sum;
    for (int step = most - 1; step > 0; --step)
      best = std::max(best, sum += gains[static_cast<size_t>(step)]);
    return best - chooses_[static_cast<size_t>(candidate.behind)];
  }

  // On both sides of a link there are two nodes at least. Those behind other links are on the other side, so the fewer are behind this one.
  bool isSome(int behind) const {
    const auto nodes = static_cast<int>(meetings_.nodes());
    return behind > 1 && behind < nodes - 1 && (!any_taken_ || 2 * behind <= nodes);
  }
  static int sizeOf(const Group& group) { return static_cast<int>(std::ranges::count(group, true)); }
  // The fewer; of half of all nodes those without node 0.
  std::vector<int> nodesOf(const Group& group) const {
    const auto twice = 2 * static_cast<size_t>(sizeOf(group));
    const bool others = !any_taken_ && (twice > group.size() || (twice == group.size() && group[0]));
    std::vector<int> nodes;
    for (size_t node = 0; node < group.size(); ++node)
      if (group[node] != others) nodes.push_back(static_cast<int>(node));
    return nodes;
  }

  // Slow pairs of two rounds cross. Of the nodes that they join, the fewer are behind the link; if as many, either may be.
  void suggest(size_t one, size_t two, std::set<Group>& groups) const {
    Group group(meetings_.nodes()), seen(meetings_.nodes());
    std::vector<std::vector<size_t>> pieces;
    for (size_t start = 0; start < group.size(); ++start) {
      if (seen[start] || taken_[start]) continue;
      std::vector<size_t> sides[2];
      std::vector<std::pair<size_t, int>> queue = {{start, 0}};
      seen[start] = true;
      for (size_t next = 0; next < queue.size(); ++next) {
        const auto [node, side] = queue[next];
        sides[side].push_back(node);
        for (const Meeting& meeting : meetings_.of(node)) {
          if (!meeting.is_slow || (meeting.round != one && meeting.round != two) || seen[meeting.other] ||
              taken_[meeting.other])
            continue;
          seen[meeting.other] = true;
          queue.emplace_back(meeting.other, 1 - side);
        }
      }
      const bool is_first = sides[0].size() < sides[1].size();
      if (sides[0].size() != sides[1].size())
        for (const size_t node : sides[is_first ? 0 : 1]) group[node] = true;
      else if (queue.size() > 2 && pieces.size() < kMostPieces) {
        for (const size_t node : sides[0]) group[node] = true;
        pieces.emplace_back();
        for (const auto& [node, side] : queue) pieces.back().push_back(node);
      }
    }
    for (size_t turned = 0; turned < size_t{1} << pieces.size(); ++turned) {
      Group way = group;
      for (size_t i = 0; i < pieces.size(); ++i)
        if (turned >> i & 1)
          for (const size_t node : pieces[i]) way[node] = !way[node];
      if (way[0] && !any_taken_) way.flip();
      if (isSome(sizeOf(way))) groups.insert(way);
    }
  }

  // The largest first, and behind no link that was found.
  std::set<Group> given(std::vector<std::vector<int>> groups) const {
    std::ranges::stable_sort(groups, std::greater(), [](const auto& group) { return group.size(); });
    std::set<Group> all;
    for (const std::vector<int>& group : groups) {
      if (all.size() == kMostGiven * most_groups_) break;
      Group way(meetings_.nodes());
      for (const int node : group) way[static_cast<size_t>(node)] = !taken_[static_cast<size_t>(node)];
      if (isSome(sizeOf(way))) all.insert(way);
    }
    return all;
  }

  std::set<Group> suggestions(const std::vector<std::vector<int>>& groups) const {
    std::set<Group> all = given(groups);
    const std::vector<Count>& counts = meetings_.rounds();
    std::vector<size_t> rounds;
    for (size_t round = 0; round < counts.size(); ++round)
      if (counts[round].slow >= 2) rounds.push_back(round);
    std::ranges::stable_sort(rounds, std::greater(), [&](size_t round) { return counts[round].slow; });
    const size_t most = all.size() + most_groups_;
    rounds.resize(std::min(rounds.size(), kMostSlowRounds));
    for (size_t two = 1; two < rounds.size(); ++two)
      for (size_t one = 0; one < two && all.size() < most; ++one) suggest(rounds[one], rounds[two], all);
    return all;
  }

  // The best that does not rest on one pair, if there is one.
  Candidate search(const std::vector<std::vector<int>>& groups) const {
    std::vector<Candidate> candidates;
    std::set<Group> seen;
    for (const Group& group : suggestions(groups)) {
      Candidate candidate{.group = group, .crossing = meetings_.crossing(group), .behind = sizeOf(group)};
      candidate.gain = roughGain(candidate);
      for (size_t pass = 0; pass < most_passes_ && settle(candidate, &Search::roughGain); ++pass) {
      }
      if (seen.insert(candidate.group).second) candidates.push_back(std::move(candidate));
    }
    std::ranges::sort(candidates, std::greater(), &Candidate::gain);
    Candidate best{.group = {}, .crossing = {}};
    for (size_t i = 0; i < std::min(candidates.size(), best.least_gain > 0 ? kMostFinal : kMostTried); ++i) {
      Candidate& candidate = candidates[i];
      judge(candidate);
      for (size_t pass = 0;
           pass < most_passes_ && candidate.gain > -kNear && settle(candidate, &Search::gainOf); ++pass)
        judge(candidate);
      if (!(candidate.gain > std::max(best.gain, 0.0))) continue;
      candidate.least_gain = gainWithoutOnePair(candidate);
      if (candidate.least_gain > 0) best = std::move(candidate);
    }
    return best;
  }

  const Flags slow_then_{kSlowThen};
  const Spread of_sum_{0, kSpreadOfLink};
  const double log_anywhere_ = std::log(kAnywhere);
  Meetings meetings_;
  double as_busy_;  // a link is busy if more cross, by this factor
  std::vector<double> chooses_;
  Group taken_;  // behind links that were found
  bool any_taken_ = false;
  Candidate none_{};
  std::vector<double> pause_odds_;            // by round
  int most_pairs_ = 1;                        // of a round
  size_t most_passes_ = 1, most_groups_ = 1;  // for the time that it takes
};

}  // namespace

std::vector<SharedLink> findSharedLinks(const Figures& figures, const std::vector<double>& lacks,
                                        double threshold, const std::vector<std::vector<int>>& groups) {
  if (figures.nodes < 3) return {};
  return Search(Meetings(figures, lacks, threshold), threshold).links(groups);
}

}  // namespace horing::check
