#pragma once
// Which algorithm serves a call. A pure function of what all ranks know alike, so that they agree without
// asking.
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
  Shape shape;  // that the algorithm runs in: one group where it does not know groups
};

// Groups of one size, or an algorithm that takes any or does not know groups.
bool fitsGroups(const Algorithm& algorithm, const GroupMap& map);
Selection selectionOf(const Algorithm& algorithm, const GroupMap& map);

// What a choice rests on, besides the call. The same on every rank.
struct SelectionGround {
  const Config& config;
  const GroupMap& map;
  const SelectionTable& table = SelectionTable::builtIn();
  // Every rank has opened memory of every other: ranks of one node, or of one process.
  bool shares_memory = false;
  // And may write into it: each is a process of its own.
  bool writes_memory = false;
  RanksPerCore ranks_per_core = RanksPerCore::kAtMostOne;
};

// What reductions run where HORING_REPRODUCIBLE is set.
inline constexpr const char* kReproducibleAlgorithm = "ho_ordered";

// kInvalidArgument: HORING_ALGO makes no sense, or forces what a reproducible communicator may not run.
Status checkForced(const Config& config);

// What is left of the table for one communicator. A value.
class Selector {
 public:
  explicit Selector(const SelectionGround& ground);

  // `bytes`: of the whole vector (the gathered one, or the one to be reduced). Constant time, for every call asks.
  const Selection& select(Collective collective, size_t bytes) const;
  // What may serve the call if every rank can reach every other's buffers, as their algorithms want it, the best first; none if that
  // is not worth the question.
  std::span<const Selection> selectShared(Collective collective, size_t bytes) const;
  // Why HORING_ALGO, or the table's first choice, is not what runs here; empty when it is. For the log.
  const std::string& fallback() const { return fallback_; }

 private:
  struct Choice {
    size_t most_bytes;
    Selection selection;
    std::vector<Selection> shared{};  // instead, if every rank can reach every other's buffers
  };
  using Choices = std::vector<Choice>;
  Choices reproducibleChoice(const SelectionGround& ground);
  Choices choicesFor(Collective collective, const SelectionGround& ground);
  Choices tableChoices(Collective collective, const SelectionGround& ground);
  Choice forcedChoice(const Choice& otherwise, Collective collective, const Algorithm& forced,
                      const SelectionGround& ground);
  const Choice& choiceOf(Collective collective, size_t bytes) const;

  ForcedAlgorithms forced_;
  std::array<Choices, kCollectives> choices_;  // by collective, up to growing sizes, the last without limit
  std::string fallback_;
};

}  // namespace horing
