#pragma once
// The pairs to measure: rounds of disjoint pairs, all at once.
#include <optional>
#include <random>
#include <vector>

#include "horing_check/diagnosis.h"

namespace horing::check {

// The partner of each node; -1: none in this round.
using Matching = std::vector<int>;

// Up to this many nodes all pairs are measured.
constexpr int kMostNodesForAllPairs = 16;
// The most rounds that measure doubtful pairs again, and if a link is doubtful: every other round is of its nodes with others.
constexpr int kMostConfirmingRounds = 16, kMostRoundsOfLinks = 2 * kMostConfirmingRounds;
// Of many nodes, slow ones have rarely met, so these rounds follow in which they meet: who is not slow then shares a slow uplink. All nodes of
// two uplinks of four meet.
constexpr int kMeetings = 7;
// If noise hides a loss of this share, there are more rounds, up to this multiple of the planned rounds.
constexpr double kClearLoss = 0.1;
constexpr int kMostSweeps = 8;

class Rounds {
 public:
  // `all_pairs`: also with many nodes. Precondition: nodes >= 2.
  // `shares`: of the nodes' expected rates, as Figures has them.
  Rounds(int nodes, bool all_pairs, unsigned seed, std::vector<double> shares = {});

  // The number of rounds before doubtful pairs are known: about log n, or all pairs, often enough for a median.
  int planned() const { return planned_; }
  // The next round after `done` rounds, all from here, and this verdict, which is used once the planned rounds are over; nothing: the result is
  // clear, or will not become clear. Slow rounds are measured again, each after another round: a pause goes by, and meanwhile slows whoever meets;
  // a link stays slow.
  std::optional<Matching> after(int done, const Verdict& verdict);
  // Any round from 0 on.
  Matching next(int round);
  // A round that measures unconfirmed findings again: paths as they are, nodes with good partners that are as fast, nodes behind an uplink with others. All
  // other nodes are paired at random, so that the network is as busy as before.
  Matching confirming(const Verdict& verdict);

 private:
  std::optional<Matching> plan(int done, const Verdict& verdict);
  std::optional<Matching> meeting(const Verdict& verdict);
  std::optional<Matching> again(const Verdict& verdict) const;

  int nodes_;
  bool all_pairs_;
  int planned_;
  int meetings_ = 0;  // rounds so far, of slow nodes
  std::mt19937 random_;
  std::vector<double> shares_;
  std::vector<Matching> before_;  // by round
};

}  // namespace horing::check
