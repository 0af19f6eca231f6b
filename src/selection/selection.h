#pragma once
// Selects the algorithm for a call. A pure function of values that are equal on all ranks, so that ranks agree without communication.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "base/config.h"
#include "selection/forced_algorithms.h"
#include "selection/selection_table.h"
#include "topology/group_map.h"

namespace horing {

struct Selection {
  const Algorithm* algorithm = nullptr;
  Shape shape;  // for the algorithm
};

// One group if the algorithm knows no groups.
Shape shapeFor(const Algorithm& algorithm, const Shape& shape);

// With what the algorithm takes of the rates of groups (selection/group_shares.h); empty: they are equal, or unknown.
Shape forRates(const Algorithm& algorithm, Shape shape, std::span<const double> rates);

// Whether the groups have one size, or the algorithm supports any sizes or has no groups.
bool fitsGroups(const Algorithm& algorithm, const GroupMap& map);
// `rates`: as for forRates().
Selection selectionOf(const Algorithm& algorithm, const GroupMap& map, std::span<const double> rates = {});

// The inputs of a choice besides the call. The same on every rank.
struct SelectionGround {
  const Config& config;
  const GroupMap& map;
  const SelectionTable& table = SelectionTable::builtIn();
  // Every rank has opened memory of every other: ranks of one node, or of one process.
  bool shares_memory = false;
  // Every rank may also write into it: each rank is a process.
  bool writes_memory = false;
  RanksPerCore ranks_per_core = RanksPerCore::kAtMostOne;
  // Of the links of groups, without noise (selection/group_shares.h); empty: equal, or unknown.
  std::vector<double> rates = {};
};

// The algorithm of reductions with HORING_REPRODUCIBLE.
inline constexpr const char* kReproducibleAlgorithm = "ho_ordered";

// The algorithm of large all-reduces if the links of groups differ in speed. For smaller ones latency counts more, and since each group
// exchanges a part of the vector with every other, so does the number of messages.
inline constexpr const char* kUnequalAlgorithm = "ho_shares";
// Between more than 8 groups only where each rank has a core: ranks that wait for one would do so in each of many windows.
constexpr bool canFollowRates(const JobShape& job) {
  // More than 128 were not simulated; a rank has connections to one of each, and 1,024 descriptors as a rule.
  constexpr int kLeastGroups = 3, kMostGroups = 128, kMostGroupsOnSharedCores = 8;
  return job.groups >= kLeastGroups && job.groups <= kMostGroups &&
         (job.groups <= kMostGroupsOnSharedCores || job.ranks_per_core != RanksPerCore::kMore);
}
inline constexpr size_t kLeastUnequalBytes = 256 << 10;
constexpr size_t leastUnequalBytes(int groups) {
  constexpr size_t kLeastPart = 32 << 10;
  return std::max(kLeastUnequalBytes, static_cast<size_t>(groups) * kLeastPart);
}

// kInvalidArgument: HORING_ALGO is invalid, or forces an algorithm that is not reproducible on a reproducible communicator.
Status checkForced(const Config& config);

// The table restricted to one communicator. A value.
class Selector {
 public:
  explicit Selector(const SelectionGround& ground);

  // `bytes`: of the whole vector (the gathered one, or the one to be reduced). Constant time, since every call needs it.
  const Selection& select(Collective collective, size_t bytes) const;
  // The algorithms for the call if ranks can access each other's buffers as required, best first; none if asking is not worthwhile.
  std::span<const Selection> selectShared(Collective collective, size_t bytes) const;
  // The reason why HORING_ALGO, or the table's first choice, does not run here; empty if it does. For the log.
  const std::string& fallback() const { return fallback_; }

 private:
  struct Choice {
    size_t most_bytes;
    Selection selection;
    std::vector<Selection> shared{};  // used instead if ranks can access each other's buffers
  };
  using Choices = std::vector<Choice>;
  Choices reproducibleChoice(const SelectionGround& ground);
  Choices choicesFor(Collective collective, const SelectionGround& ground);
  Choices tableChoices(Collective collective, const SelectionGround& ground);
  Choice forcedChoice(const Choice& otherwise, Collective collective, const Algorithm& forced,
                      const SelectionGround& ground);
  const Choice& choiceOf(Collective collective, size_t bytes) const;

  ForcedAlgorithms forced_;
  std::array<Choices, kCollectives> choices_;  // by collective, by ascending size, the last without limit
  std::string fallback_;
};

}  // namespace horing
