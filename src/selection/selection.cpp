#include "selection/selection.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/status.h"
#include "schedule/postcondition.h"
#include "selection/group_shares.h"

namespace horing {

namespace {

// For smaller calls, asking whether buffers are accessible costs more than it gains; the cost grows with the ranks. Measured with 2 and 4
// ranks on 2 cores.
size_t leastSharedBytes(int ranks) {
  return std::min<size_t>(static_cast<size_t>(ranks) * (32 << 10), 256 << 10);
}

bool knowsGroups(std::string_view algorithm) {
  return algorithm.starts_with("ho_");
}
// For calls without a matching row: the first algorithm without groups.
const Algorithm& plainest(Collective collective) {
  const Algorithm* found = nullptr;
  for (const Algorithm& algorithm : algorithmCatalogue())
    if (!found && algorithm.has(collective) && !knowsGroups(algorithm.name)) found = &algorithm;
  return *found;
}

bool mayReach(const Algorithm& algorithm, const SelectionGround& ground) {
  if (ground.config.reproducible || ground.map.ranks() == 1 || !ground.shares_memory) return false;
  return algorithm.buffers != Buffers::kWrittenByPeers || ground.writes_memory;
}

// The algorithms that access peers' buffers; writing into peers' outputs moves the least.
std::vector<Selection> sharedSelections(Collective collective, const SelectionGround& ground) {
  std::vector<Selection> selections;
  for (const char* name : {"peer_write", "peer_read"})
    if (const Algorithm& algorithm = *findAlgorithm(name);
        algorithm.has(collective) && mayReach(algorithm, ground))
      selections.push_back(selectionOf(algorithm, ground.map));
  return selections;
}

}  // namespace

bool fitsGroups(const Algorithm& algorithm, const GroupMap& map) {
  return map.uniform() || algorithm.any_sizes || !knowsGroups(algorithm.name);
}

Shape shapeFor(const Algorithm& algorithm, const Shape& shape) {
  return knowsGroups(algorithm.name) ? shape : Shape{1, shape.ranks()};
}

Shape forRates(const Algorithm& algorithm, Shape shape, std::span<const double> rates) {
  if (algorithm.takes_shares) shape.shares = sharesByRate(rates);
  if (algorithm.takes_speed) shape.by_speed = groupsBySpeed(rates);
  return shape;
}

Selection selectionOf(const Algorithm& algorithm, const GroupMap& map, std::span<const double> rates) {
  if (!fitsGroups(algorithm, map)) return {&algorithm, {1, map.ranks()}};
  return {&algorithm, forRates(algorithm, shapeFor(algorithm, Shape::of(map.sizes())), rates)};
}

Status checkForced(const Config& config) {
  HORING_ASSIGN(const ForcedAlgorithms forced, ForcedAlgorithms::parse(config.algorithm));
  for (const ForcedRow& row : forced.rows()) {
    const bool folds = !row.collective || contractOf(*row.collective).folds();
    if (!config.reproducible || !folds || row.algorithm->name == std::string_view(kReproducibleAlgorithm))
      continue;
    return makeStatus(
        Code::kInvalidArgument,
        "HORING_ALGO=%s forces an algorithm whose results depend on the size, and the communicator "
        "shall be reproducible (HORING_REPRODUCIBLE, or options.reproducible): unset one of the two",
        config.algorithm.c_str());
  }
  return {};
}

Selector::Selector(const SelectionGround& ground) {
  Result<ForcedAlgorithms> forced = ForcedAlgorithms::parse(ground.config.algorithm);
  if (forced.ok()) forced_ = forced.take();  // otherwise checkForced() has refused it
  for (const ForcedRow& row : forced_.rows())
    if (row.algorithm->reachesPeers() && !mayReach(*row.algorithm, ground))
      fallback_ = formatString("%s needs ranks that share memory%s: others run instead", row.algorithm->name,
                               ground.shares_memory ? ", each a process of its own" : "");
  for (int number = 0; number < kCollectives; ++number)
    choices_[static_cast<size_t>(number)] = choicesFor(static_cast<Collective>(number), ground);
}

std::span<const Selection> Selector::selectShared(Collective collective, size_t bytes) const {
  return choiceOf(collective, bytes).shared;
}

// Groups that differ in size are treated as one group: the order still depends on the group map only.
Selector::Choices Selector::reproducibleChoice(const SelectionGround& ground) {
  const Algorithm& algorithm = *findAlgorithm(kReproducibleAlgorithm);
  if (!ground.map.uniform())
    fallback_ = formatString(
        "groups differ in size: reproducible reductions fold all ranks as one group, and every rank sends to "
        "every other");
  return {{SIZE_MAX, selectionOf(algorithm, ground.map)}};
}

// The sizes at which the choice may change: the limits of the table's rows and of forced algorithms, and the size at which access to peers'
// buffers begins to pay.
Selector::Choices Selector::choicesFor(Collective collective, const SelectionGround& ground) {
  const GroupMap& map = ground.map;
  if (ground.config.reproducible && contractOf(collective).folds()) return reproducibleChoice(ground);
  const Choices table = tableChoices(collective, ground);
  const std::vector<Selection> shared = sharedSelections(collective, ground);
  const size_t least_shared_bytes = leastSharedBytes(map.ranks());
  std::set<size_t> edges = {least_shared_bytes - 1};
  for (const Choice& choice : table) edges.insert(choice.most_bytes);
  for (const ForcedRow& row : forced_.rows()) {
    if (row.least_bytes > 0) edges.insert(row.least_bytes - 1);
    edges.insert(row.most_bytes);
  }
  Choices choices;
  for (const size_t edge : edges) {
    Choice choice =
        *std::find_if(table.begin(), table.end(), [&](const Choice& c) { return c.most_bytes >= edge; });
    choice.most_bytes = edge;
    if (const Algorithm* forced = forced_.find(collective, edge)) {
      choice = forcedChoice(choice, collective, *forced, ground);
    } else {
      // If the user forces an algorithm without naming a collective, access to peers' buffers must not replace it.
      const bool names_all = !forced_.rows().empty() && !forced_.rows().front().collective;
      if (map.groups() == 1 && edge >= least_shared_bytes && !names_all) choice.shared = shared;
    }
    choices.push_back(choice);
  }
  return choices;
}

Selector::Choice Selector::forcedChoice(const Choice& otherwise, Collective collective,
                                        const Algorithm& forced, const SelectionGround& ground) {
  const GroupMap& map = ground.map;
  Choice choice = otherwise;
  if (forced.reachesPeers()) {
    if (forced.has(collective) && mayReach(forced, ground)) choice.shared = {selectionOf(forced, map)};
  } else if (fitsGroups(forced, map)) {
    choice.selection = selectionOf(forced, map, ground.rates);
  } else {
    fallback_ = formatString("%s needs groups of one size, here they have %d to %d ranks: others run instead",
                             forced.name, map.smallestGroup(), map.largestGroup());
  }
  return choice;
}

Selector::Choices Selector::tableChoices(Collective collective, const SelectionGround& ground) {
  const GroupMap& map = ground.map;
  const JobShape job{map.groups(), map.largestGroup(), ground.ranks_per_core};
  Choices choices;
  for (const SelectionRow& row : ground.table.rows()) {
    if (!row.fits(collective, job) || !row.algorithm->has(collective)) continue;
    if (!choices.empty() && choices.back().most_bytes >= row.most_bytes) continue;
    if (fitsGroups(*row.algorithm, map))
      choices.push_back({row.most_bytes, selectionOf(*row.algorithm, map, ground.rates)});
  }
  if (choices.empty() || choices.back().most_bytes != SIZE_MAX)
    choices.push_back({SIZE_MAX, selectionOf(plainest(collective), map)});
  if (sharesByRate(ground.rates) && collective == Collective::kAllReduce) {
    const size_t least_bytes = leastUnequalBytes(map.groups());
    const auto clipped = std::find_if(choices.begin(), choices.end(),
                                      [&](const Choice& choice) { return choice.most_bytes >= least_bytes; });
    clipped->most_bytes = least_bytes - 1;
    choices.erase(clipped + 1, choices.end());
    choices.push_back({SIZE_MAX, selectionOf(*findAlgorithm(kUnequalAlgorithm), map, ground.rates)});
  }
  return choices;
}

const Selector::Choice& Selector::choiceOf(Collective collective, size_t bytes) const {
  const Choice* choice = choices_[static_cast<size_t>(collective)].data();
  while (choice->most_bytes < bytes) ++choice;
  return *choice;
}

const Selection& Selector::select(Collective collective, size_t bytes) const {
  return choiceOf(collective, bytes).selection;
}

}  // namespace horing
