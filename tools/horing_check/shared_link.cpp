#include "horing_check/shared_link.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace horing::check {

namespace {

// So many rounds have to be slow for a suspicion. For blame so many different pairs for each node, or most of those across the link, since a
// pause of the whole cluster slows a round, too, and few pairs can always be split into two sides.
constexpr int kSuspectRounds = 2, kPairsOfNode = 2;
constexpr double kMostPairs = 0.8;
// Of the samples in slow rounds, the part that the link has to explain: slow ones cross it, others do not.
constexpr double kLeastAgreement = 0.9;
// Of the rounds in which as many pairs crossed it as in half of the slow ones, the part that has to be slow.
constexpr double kSlowIfCrossed = 0.8;
// The share of the most slow samples of any round, in rounds that count as slow: chance slows a few samples of any round.
constexpr double kSlowRound = 0.5;
constexpr int kMostPasses = 10;
// A node that is slow itself has fewer samples that are not slow.
constexpr double kAlways = 0.2;
// Of its samples with members, the part that is slow then.
constexpr double kSlowWithMembers = 0.5;

// A pair in a round in which several were slow. It speaks for two nodes being on the same side, or on different ones.
struct Evidence {
  int round, from, to;
  bool apart;
};

std::vector<Evidence> evidenceOf(const Figures& figures, const std::vector<double>& excess,
                                 double threshold) {
  std::map<int, int> slow;
  const auto speaks = [&](const Sample& sample) { return sample.from < sample.to; };  // once for its pair
  for (size_t i = 0; i < figures.samples.size(); ++i)
    if (excess[i] > threshold && speaks(figures.samples[i])) ++slow[figures.samples[i].round];
  int most = 0, rounds = 0;
  for (const auto& [round, count] : slow) most = std::max(most, count);
  const int least = std::max(2, static_cast<int>(kSlowRound * most));
  for (const auto& [round, count] : slow) rounds += count >= least ? 1 : 0;
  std::vector<Evidence> all;
  if (rounds < kSuspectRounds) return all;
  for (size_t i = 0; i < figures.samples.size(); ++i) {
    const Sample& sample = figures.samples[i];
    const auto found = slow.find(sample.round);
    if (found != slow.end() && found->second >= least && speaks(sample))
      all.push_back({sample.round, sample.from, sample.to, excess[i] > threshold});
  }
  return all;
}

class Sides {
 public:
  Sides(int nodes, const std::vector<Evidence>& evidence)
      : of_node_(static_cast<size_t>(nodes)), evidence_(evidence), by_node_(of_node_.size()) {
    for (size_t i = 0; i < evidence.size(); ++i)
      for (const int node : {evidence[i].from, evidence[i].to}) by_node_[at(node)].push_back(i);
    colour();
    for (int pass = 0; pass < kMostPasses && improve(); ++pass) {
    }
  }

  bool crosses(int from, int to) const { return of_node_[at(from)] != of_node_[at(to)]; }
  std::vector<int> smaller() const {
    std::vector<int> side[2];
    for (size_t node = 0; node < of_node_.size(); ++node)
      side[of_node_[node] == of_node_[0] ? 0 : 1].push_back(static_cast<int>(node));
    return side[0].size() < side[1].size() ? side[0] : side[1];
  }

 private:
  static size_t at(int node) { return static_cast<size_t>(node); }

  // From node to node along what is apart.
  void colour() {
    std::vector<bool> seen(of_node_.size());
    for (size_t start = 0; start < of_node_.size(); ++start) {
      if (seen[start]) continue;
      seen[start] = true;
      std::vector<int> queue = {static_cast<int>(start)};
      for (size_t next = 0; next < queue.size(); ++next)
        for (const size_t i : by_node_[at(queue[next])]) {
          const Evidence& one = evidence_[i];
          const int other = one.from == queue[next] ? one.to : one.from;
          if (!one.apart || seen[at(other)]) continue;
          seen[at(other)] = true;
          of_node_[at(other)] = !of_node_[at(queue[next])];
          queue.push_back(other);
        }
    }
  }

  // Moves each node to the side that explains more.
  bool improve() {
    bool moved = false;
    for (size_t node = 0; node < of_node_.size(); ++node) {
      ptrdiff_t agree = 0;
      for (const size_t i : by_node_[node])
        agree += crosses(evidence_[i].from, evidence_[i].to) == evidence_[i].apart ? 1 : -1;
      if (agree >= 0) continue;
      of_node_[node] = !of_node_[node];
      moved = true;
    }
    return moved;
  }

  std::vector<bool> of_node_;
  const std::vector<Evidence>& evidence_;
  std::vector<std::vector<size_t>> by_node_;
};

// Whether most of the rounds in which many pairs crossed are slow.
bool slowWheneverCrossed(const Figures& figures, const Sides& sides, const std::vector<Evidence>& evidence) {
  std::map<int, int> crossing;
  for (const Sample& sample : figures.samples)
    crossing[sample.round] += sides.crosses(sample.from, sample.to) ? 1 : 0;
  std::set<int> slow;
  for (const Evidence& one : evidence) slow.insert(one.round);
  std::vector<int> counts;
  for (const int round : slow) counts.push_back(crossing[round]);
  std::sort(counts.begin(), counts.end());
  const int many = counts[counts.size() / 2];
  int crossed = 0, crossed_and_slow = 0;
  for (const auto& [round, count] : crossing) {
    crossed += count >= many ? 1 : 0;
    crossed_and_slow += count >= many && slow.contains(round) ? 1 : 0;
  }
  return crossed_and_slow >= kSlowIfCrossed * crossed;
}

// What a side of a link explains. Noise only slows: a slow pair that does not cross says nothing.
class Members {
 public:
  Members(const Figures& figures, const std::vector<double>& excess, double threshold,
          const std::vector<int>& others, const std::vector<int>& nodes)
      : is_member_(static_cast<size_t>(figures.nodes)),
        is_other_(is_member_),
        pairs_of_node_(is_member_.size()) {
    for (const int node : nodes) is_member_[at(node)] = true;
    for (const int node : others) is_other_[at(node)] = true;
    std::map<int, size_t> places;  // of rounds
    for (size_t i = 0; i < figures.samples.size(); ++i) {
      const Sample& sample = figures.samples[i];
      if (sample.from >= sample.to || is_other_[at(sample.from)] || is_other_[at(sample.to)]) continue;
      const size_t round = places.try_emplace(sample.round, places.size()).first->second;
      const bool is_slow = excess[i] > threshold;
      pairs_of_node_[at(sample.from)].push_back({sample.to, round, is_slow});
      pairs_of_node_[at(sample.to)].push_back({sample.from, round, is_slow});
    }
    rounds_.resize(places.size());
    for (size_t node = 0; node < is_member_.size(); ++node)
      for (const Pair& pair : pairs_of_node_[node])
        if (at(pair.other) > node && crosses(node, pair)) count(pair, 1);
  }

  void settle() {
    for (int pass = 0, best = explained(); pass < kMostPasses; ++pass) {
      const int before = best;
      for (size_t node = 0; node < is_member_.size(); ++node) {
        if (is_other_[node] || (!is_member_[node] && isSlowItself(node))) continue;
        change(node);
        const int now = explained();
        if (now > best)
          best = now;
        else
          change(node);
      }
      if (best == before) return;
    }
  }

  std::vector<int> nodes() const {
    std::vector<int> all;
    for (size_t node = 0; node < is_member_.size(); ++node)
      if (is_member_[node]) all.push_back(static_cast<int>(node));
    return all;
  }

 private:
  struct Pair {
    int other;
    size_t round;
    bool is_slow;
  };
  struct Round {
    int crossing = 0;
    int slow_less_others = 0;  // of these
  };
  static size_t at(int node) { return static_cast<size_t>(node); }
  bool crosses(size_t node, const Pair& pair) const { return is_member_[node] != is_member_[at(pair.other)]; }
  void count(const Pair& pair, int times) {
    rounds_[pair.round].crossing += times;
    rounds_[pair.round].slow_less_others += pair.is_slow ? times : -times;
  }
  // Makes a node a member, or no longer.
  void change(size_t node) {
    for (const Pair& pair : pairs_of_node_[node]) count(pair, crosses(node, pair) ? -1 : 1);
    is_member_[node] = !is_member_[node];
  }

  // Crossing pairs that are slow, less those that are not, in all rounds in which so many cross that this is most.
  int explained() const {
    std::map<int, int, std::greater<>> by_crossing;
    for (const Round& round : rounds_) by_crossing[round.crossing] += round.slow_less_others;
    int sum = 0, best = 0;
    for (const auto& [crossing, of_rounds] : by_crossing) best = std::max(best, sum += of_rounds);
    return best;
  }

  // Nearly always, and with the members, too.
  bool isSlowItself(size_t node) const {
    int met = 0, slow_with_them = 0, well = 0;
    for (const Pair& pair : pairs_of_node_[node]) {
      const bool is_them = is_member_[at(pair.other)];
      well += pair.is_slow ? 0 : 1;
      met += is_them ? 1 : 0;
      slow_with_them += is_them && pair.is_slow ? 1 : 0;
    }
    return slow_with_them >= kSlowWithMembers * met &&
           well <= kAlways * static_cast<double>(pairs_of_node_[node].size());
  }

  std::vector<bool> is_member_, is_other_;
  std::vector<std::vector<Pair>> pairs_of_node_;
  std::vector<Round> rounds_;
};

}  // namespace

std::optional<SharedLink> findSharedLink(const Figures& figures, const std::vector<double>& excess,
                                         double threshold) {
  const std::vector<Evidence> evidence = evidenceOf(figures, excess, threshold);
  if (evidence.empty()) return std::nullopt;
  const Sides sides(figures.nodes, evidence);
  SharedLink link{sides.smaller()};
  if (link.nodes.size() < 2) return std::nullopt;
  double agree = 0;
  std::set<std::pair<int, int>> pairs;  // slow ones
  for (const Evidence& one : evidence) {
    const bool crosses = sides.crosses(one.from, one.to);
    agree += crosses == one.apart ? 1 : 0;
    if (crosses && one.apart) pairs.insert({one.from, one.to});
  }
  if (agree < kLeastAgreement * static_cast<double>(evidence.size()) ||
      !slowWheneverCrossed(figures, sides, evidence))
    return std::nullopt;
  const auto nodes = static_cast<double>(figures.nodes), side = static_cast<double>(link.nodes.size());
  link.confirmed =
      static_cast<double>(pairs.size()) >= std::min(kPairsOfNode * nodes, kMostPairs * side * (nodes - side));
  return link;
}

void settleMembers(const Figures& figures, const std::vector<double>& excess, double threshold,
                   const std::vector<int>& others, SharedLink& link) {
  if (figures.nodes > kMostToSettle) return;
  Members members(figures, excess, threshold, others, link.nodes);
  members.settle();
  link.nodes = members.nodes();
}

}  // namespace horing::check
