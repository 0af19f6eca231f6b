#include "comm/selection.h"

#include <string_view>

#include "base/status.h"

namespace horing {

namespace {

// Smaller calls do not gain what it costs to ask who shares memory.
constexpr size_t kLeastSharedBytes = 256 << 10;

bool knowsGroups(std::string_view algorithm) {
  return algorithm.starts_with("ho_");
}
// Every rank has a link to every other of its group.
bool connectsAllOfGroup(std::string_view algorithm) {
  return algorithm == "peer_read" || algorithm == "direct" || algorithm == "one_shot" ||
         algorithm == "ho_direct" || algorithm == "ho_halving" || algorithm == "ho_doubling" ||
         algorithm == "ho_ring_direct";
}

bool fitsMemory(const Algorithm& algorithm, const SelectionGround& ground) {
  const auto members = static_cast<uint64_t>(ground.map.largestGroup());
  return !connectsAllOfGroup(algorithm.name) ||
         members * (members - 1) / 2 * ground.link_bytes <= ground.memory_bytes;
}

bool fitsGroups(const Algorithm& algorithm, const GroupMap& map) {
  return map.uniform() || !knowsGroups(algorithm.name);
}

Selection selectionOf(const Algorithm& algorithm, const GroupMap& map) {
  const Shape flat{1, map.ranks()};
  return {&algorithm, knowsGroups(algorithm.name) ? Shape{map.groups(), map.largestGroup()} : flat};
}

// For what no row serves: the first one that does not ask for groups.
const Algorithm& plainest(Collective collective) {
  const Algorithm* found = nullptr;
  for (const Algorithm& algorithm : algorithmCatalogue())
    if (!found && algorithm.has(collective) && !knowsGroups(algorithm.name)) found = &algorithm;
  return *found;
}

std::string unequalGroups(const char* algorithm, const GroupMap& map) {
  return formatString(
      "%s needs groups of one size, here they have %d to %d ranks: algorithms that do not know groups run "
      "instead",
      algorithm, map.smallestGroup(), map.largestGroup());
}

}  // namespace

Selector::Selector(const SelectionGround& ground) {
  for (int number = 0; number < kCollectives; ++number)
    choices_[static_cast<size_t>(number)] = choicesFor(static_cast<Collective>(number), ground);
  const Algorithm& shared = *findAlgorithm("peer_read");
  const bool is_forced = ground.config.algorithm == shared.name;
  const bool may = is_forced || (ground.config.algorithm == "auto" && ground.map.groups() == 1);
  if (may && ground.map.ranks() > 1 && ground.shares_memory && fitsMemory(shared, ground))
    shared_ = selectionOf(shared, ground.map);
  else if (is_forced)
    fallback_ = "peer_read needs ranks that share memory: others run instead";
  least_shared_bytes_ = is_forced ? 0 : kLeastSharedBytes;
}

const Selection* Selector::selectShared(Collective collective, size_t bytes) const {
  const bool may = shared_.algorithm && shared_.algorithm->has(collective) && bytes >= least_shared_bytes_;
  return may ? &shared_ : nullptr;
}

std::vector<Selector::Choice> Selector::choicesFor(Collective collective, const SelectionGround& ground) {
  const GroupMap& map = ground.map;
  const Algorithm* forced = findAlgorithm(ground.config.algorithm);
  if (forced && forced->has(collective) && forced->inputs == Inputs::kAnywhere) {
    if (fitsGroups(*forced, map)) return {{SIZE_MAX, selectionOf(*forced, map)}};
    fallback_ = unequalGroups(forced->name, map);
  }
  std::vector<Choice> choices;
  for (const SelectionRow& row : ground.table.rows()) {
    if (!row.fits(collective, map.groups(), map.largestGroup()) || !row.algorithm->has(collective)) continue;
    if (!choices.empty() && choices.back().most_bytes >= row.most_bytes) continue;
    if (!fitsGroups(*row.algorithm, map)) {
      if (fallback_.empty()) fallback_ = unequalGroups(row.algorithm->name, map);
    } else if (!fitsMemory(*row.algorithm, ground)) {
      if (fallback_.empty())
        fallback_ = formatString(
            "shared memory has room for %llu MiB of links and %s would take more: others run instead "
            "(enlarge "
            "HORING_SHM_DIR's file system to change that)",
            static_cast<unsigned long long>(ground.memory_bytes >> 20), row.algorithm->name);
    } else {
      choices.push_back({row.most_bytes, selectionOf(*row.algorithm, map)});
    }
  }
  if (choices.empty() || choices.back().most_bytes != SIZE_MAX)
    choices.push_back({SIZE_MAX, selectionOf(plainest(collective), map)});
  return choices;
}

const Selection& Selector::select(Collective collective, size_t bytes) const {
  const Choice* choice = choices_[static_cast<size_t>(collective)].data();
  while (choice->most_bytes < bytes) ++choice;
  return choice->selection;
}

}  // namespace horing
