#include "horing_check/rounds.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

namespace horing::check {

namespace {

constexpr int kLeastRounds = 7;
// Of the same pairs, as long as they are slow.
constexpr int kMostRepeats = 5;

enum class Turn : uint8_t { kConfirming, kNext, kSame };

// The circle method: one node stays, the others rotate by one in each round. With an odd number, one node pauses.
Matching roundRobin(int nodes, int round) {
  const int seats = nodes + nodes % 2, moving = seats - 1;
  Matching partner(static_cast<size_t>(nodes), -1);
  const auto node_at = [&](int seat) { return seat == 0 ? moving : (seat - 1 + round) % moving; };
  for (int seat = 0; seat < seats / 2; ++seat) {
    const int a = node_at(seat), b = node_at(seats - 1 - seat);
    if (a >= nodes || b >= nodes) continue;
    partner[static_cast<size_t>(a)] = b;
    partner[static_cast<size_t>(b)] = a;
  }
  return partner;
}

bool pairUp(Matching& partner, int a, int b) {
  if (a == b || partner[static_cast<size_t>(a)] >= 0 || partner[static_cast<size_t>(b)] >= 0) return false;
  partner[static_cast<size_t>(a)] = b;
  partner[static_cast<size_t>(b)] = a;
  return true;
}

// Pairs these nodes with others.
void pairAcross(Matching& partner, const std::vector<int>& nodes, std::mt19937& random) {
  std::vector<int> others;
  for (int node = 0; node < static_cast<int>(partner.size()); ++node)
    if (!std::binary_search(nodes.begin(), nodes.end(), node) && partner[static_cast<size_t>(node)] < 0)
      others.push_back(node);
  std::shuffle(others.begin(), others.end(), random);
  for (const int node : nodes)
    if (!others.empty() && pairUp(partner, node, others.back())) others.pop_back();
}

// Pairs the nodes without a partner.
void pairTheRest(Matching& partner, std::mt19937& random) {
  std::vector<int> free;
  for (int node = 0; node < static_cast<int>(partner.size()); ++node)
    if (partner[static_cast<size_t>(node)] < 0) free.push_back(node);
  std::shuffle(free.begin(), free.end(), random);
  for (size_t i = 0; i + 1 < free.size(); i += 2) pairUp(partner, free[i], free[i + 1]);
}

}  // namespace

Rounds::Rounds(int nodes, bool all_pairs, unsigned seed, std::vector<double> shares)
    : nodes_(nodes),
      all_pairs_(all_pairs || nodes <= kMostNodesForAllPairs),
      random_(seed),
      shares_(std::move(shares)) {
  const int sweep = nodes - 1 + nodes % 2;
  const int log = static_cast<int>(std::bit_width(static_cast<unsigned>(nodes - 1)));
  planned_ = all_pairs_ ? (kLeastRounds + sweep - 1) / sweep * sweep : std::max(kLeastRounds, log);
}

std::optional<Matching> Rounds::after(int done, const Verdict& verdict) {
  const std::optional<Matching> partner = plan(done, verdict);
  if (partner) before_.push_back(*partner);
  return partner;
}

std::optional<Matching> Rounds::plan(int done, const Verdict& verdict) {
  if (done < planned_) return next(done);
  const bool doubtful = anyUnconfirmed(verdict), unclear = verdict.least_loss > kClearLoss,
             is_link = !std::ranges::all_of(verdict.uplinks, &Uplink::confirmed);
  const int most = unclear   ? kMostSweeps * planned_
                   : is_link ? planned_ + kMostRoundsOfLinks
                             : planned_ + kMostConfirmingRounds;
  if (done >= most) return std::nullopt;
  if (const std::optional<Matching> meets = meeting(verdict)) return meets;
  // In turns: a path that stays doubtful because of noise must not prevent measuring others, and a link is told from pauses by rounds in which
  // few cross it.
  const std::optional<Matching> same = again(verdict);
  const bool others = unclear || is_link || same;
  std::vector<Turn> turns;
  if (doubtful && same && !unclear && !is_link) {
    turns = {Turn::kConfirming, Turn::kSame, Turn::kConfirming, Turn::kNext};
  } else {
    for (const auto& [wanted, turn] :
         {std::pair(doubtful, Turn::kConfirming), {same.has_value(), Turn::kSame}}) {
      if (!wanted) continue;
      turns.push_back(turn);
      if (others) turns.push_back(Turn::kNext);
    }
    if (turns.empty() && others) turns.push_back(Turn::kNext);
  }
  if (turns.empty()) return std::nullopt;
  switch (turns[static_cast<size_t>(done) % turns.size()]) {
    case Turn::kConfirming:
      return confirming(verdict);
    case Turn::kNext:
      return next(done);
    case Turn::kSame:
      break;
  }
  return same;
}

// Of the slow rounds, the one whose pairs met least often.
std::optional<Matching> Rounds::again(const Verdict& verdict) const {
  std::optional<Matching> least;
  ptrdiff_t fewest = kMostRepeats;
  for (const int round : verdict.slow_rounds) {
    if (round < 0 || round >= std::ssize(before_)) continue;
    const Matching& partner = before_[static_cast<size_t>(round)];
    const ptrdiff_t times = std::ranges::count(before_, partner);
    if (times < fewest) fewest = times, least = partner;
  }
  return least;
}

Matching Rounds::next(int round) {
  if (all_pairs_) return roundRobin(nodes_, round);
  Matching partner(static_cast<size_t>(nodes_), -1);
  pairTheRest(partner, random_);
  return partner;
}

// The circle method among the slow nodes.
std::optional<Matching> Rounds::meeting(const Verdict& verdict) {
  std::set<int> slow(verdict.slow_at_once.begin(), verdict.slow_at_once.end());
  for (const Finding& finding : verdict.findings)
    if (finding.quantity == Quantity::kRate && finding.part != Part::kPath) slow.insert(finding.node);
  const int count = static_cast<int>(slow.size());
  if (all_pairs_ || meetings_ == std::min(kMeetings, count - 1 + count % 2) || count < 2) return std::nullopt;
  const std::vector<int> nodes(slow.begin(), slow.end());
  const Matching among = roundRobin(count, meetings_++);
  Matching partner(static_cast<size_t>(nodes_), -1);
  for (size_t i = 0; i < among.size(); ++i)
    if (among[i] >= 0) pairUp(partner, nodes[i], nodes[static_cast<size_t>(among[i])]);
  pairTheRest(partner, random_);
  return partner;
}

Matching Rounds::confirming(const Verdict& verdict) {
  Matching partner(static_cast<size_t>(nodes_), -1);
  for (const Uplink& uplink : verdict.uplinks)
    if (!uplink.confirmed) pairAcross(partner, uplink.nodes, random_);
  std::set<int> suspects, doubtful;
  for (const Finding& finding : verdict.findings) {
    if (finding.part == Part::kPath) continue;
    suspects.insert(finding.node);
    if (!finding.confirmed) doubtful.insert(finding.node);
  }
  // What crosses a link that is known says nothing of a doubtful node, which needs other judges.
  std::set<int> behind;
  for (const Uplink& uplink : verdict.uplinks)
    if (uplink.confirmed) behind.insert(uplink.nodes.begin(), uplink.nodes.end());
  const auto misjudges = [&](int node, int other) {
    return behind.contains(node) && !behind.contains(other) && doubtful.contains(other);
  };
  for (const Finding& finding : verdict.findings)
    if (finding.part == Part::kPath && !finding.confirmed && !misjudges(finding.node, finding.to) &&
        !misjudges(finding.to, finding.node))
      pairUp(partner, finding.node, finding.to);
  std::vector<int> judges;
  for (int node = 0; node < nodes_; ++node)
    if (!suspects.contains(node) && partner[static_cast<size_t>(node)] < 0) judges.push_back(node);
  std::shuffle(judges.begin(), judges.end(), random_);
  const auto share = [&](int node) { return shares_.empty() ? 1 : shares_[static_cast<size_t>(node)]; };
  if (!shares_.empty()) {
    // No good node may be as fast, since all of a kind are doubtful: then they judge each other.
    std::vector<int> others(suspects.begin(), suspects.end());
    std::shuffle(others.begin(), others.end(), random_);
    judges.insert(judges.end(), others.begin(), others.end());
  }
  for (const int node : doubtful)
    (void)std::ranges::any_of(
        judges, [&](int judge) { return share(judge) >= share(node) && pairUp(partner, node, judge); });
  pairTheRest(partner, random_);
  return partner;
}

}  // namespace horing::check
