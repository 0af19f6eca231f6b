#pragma once
// Who is measured with whom: rounds of disjoint pairs, all at once.
#include <optional>
#include <random>
#include <vector>

#include "horing_check/diagnosis.h"

namespace horing::check {

// Of each node its partner; -1: it has none in this round.
using Matching = std::vector<int>;

// Up to so many nodes all pairs are measured.
constexpr int kMostNodesForAllPairs = 16;
// Rounds that measure again what is doubtful, at most.
constexpr int kMostConfirmingRounds = 16;
// Where noise hides a node's loss of this share, there are more rounds; in all so many times those that are planned.
constexpr double kClearLoss = 0.1;
constexpr int kMostSweeps = 8;

class Rounds {
 public:
  // All pairs: also where there are many nodes. Precondition: nodes >= 2.
  Rounds(int nodes, bool all_pairs, unsigned seed);

  // How many there are before it is known what is doubtful: about log n, or all pairs, often enough for a median.
  int planned() const { return planned_; }
  // What follows after `done` rounds and this verdict, which counts once those that are planned are over; none: it is clear, or will
  // not become so.
  std::optional<Matching> after(int done, const Verdict& verdict);
  // Any round from 0 on.
  Matching next(int round);
  // One that measures again what is not confirmed: paths as they are, nodes with partners that nothing was found against. All others
  // are paired at random, so that the network is as busy as before.
  Matching confirming(const Verdict& verdict);

 private:
  int nodes_;
  bool all_pairs_;
  int planned_;
  std::mt19937 random_;
};

bool anyUnconfirmed(const Verdict& verdict);

}  // namespace horing::check
