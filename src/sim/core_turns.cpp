#include "sim/core_turns.h"

#include <algorithm>

#include "topology/core_sharing.h"

namespace horing {

std::vector<size_t> coresOfPositions(const MachineModel& machine, const Folding& folding) {
  if (!takesTurns(machine)) return {};
  const auto cores = std::max<size_t>(static_cast<size_t>(machine.cores), 1);
  const int32_t nodes = folding.folds() ? 1 : folding.nodes();
  std::vector<int32_t> local_ranks;  // of ranks that share cores
  std::vector<size_t> all;
  size_t first_core = 0;
  for (int32_t node = 0; node < nodes; ++node) {
    for (int32_t i = 0; i < machine.ranksOf(node); ++i) local_ranks.push_back(i);
    if (machine.cores_of == Owner::kMachine && node + 1 < nodes) continue;
    for (const size_t core : coresOfRanks(local_ranks, cores)) all.push_back(first_core + core);
    local_ranks.clear();
    first_core += cores;
  }
  return all;
}

CoreTurns::CoreTurns(const MachineModel& machine, const Folding& folding)
    : turn_(toPicoseconds(machine.turn_us)),
      wake_(std::max(turn_, toPicoseconds(machine.wake_us))),
      patience_(toPicoseconds(machine.patience_us)) {
  for (const size_t core : coresOfPositions(machine, folding)) {
    ranks_.push_back({.core = core});
    cores_.resize(std::max(cores_.size(), core + 1));
    cores_[core].ranks.push_back(static_cast<int32_t>(ranks_.size()) - 1);
  }
  for (Core& core : cores_) {
    core.since = -turn_;  // it has polled already
    choose(core);
  }
}

// The next awake rank, which may be the same.
size_t CoreTurns::after(const Core& core, size_t index) {
  for (size_t i = 1; i <= core.ranks.size(); ++i)
    if (const size_t next = (index + i) % core.ranks.size(); rankAt(core, next).is_awake) return next;
  return index;
}

int32_t CoreTurns::awake(const Core& core) {
  return static_cast<int32_t>(std::count_if(core.ranks.begin(), core.ranks.end(),
                                            [&](int32_t position) { return rank(position).is_awake; }));
}

// Skips turns that ended before `now` without work.
void CoreTurns::passLooks(Core& core, Picoseconds now) {
  const int32_t ring = awake(core);
  if (core.is_taken || ring == 0 || now <= core.since) return;
  const Picoseconds looks = (now - core.since - 1) / turn_;
  core.since += looks * turn_;
  for (Picoseconds i = looks % ring; i > 0; --i) core.at = after(core, core.at);
}

// Finds the rank whose turn is the first to end with work, or with the end of its patience.
void CoreTurns::choose(Core& core) {
  core.next = kNever;
  const int32_t ring = awake(core);
  if (core.is_taken) return;
  size_t index = core.at;
  for (int32_t i = 1; i <= ring; ++i, index = after(core, index)) {
    const Rank& looking = rankAt(core, index);
    Picoseconds end = core.since + i * turn_;
    if (!looking.has_work) {
      const Picoseconds rounds = ring * turn_, blocks = looking.idle_since + patience_;
      end += std::max<Picoseconds>((blocks - end + rounds - 1) / rounds, 0) * rounds;
    }
    if (end < core.next) {
      core.next = end;
      core.chosen = index;
    }
  }
}

void CoreTurns::begin(int32_t position, Picoseconds now) {
  Rank& own = rank(position);
  Core& core = cores_[own.core];
  own.has_work = true;
  if (awake(core) == 0) {
    core.at =
        static_cast<size_t>(std::find(core.ranks.begin(), core.ranks.end(), position) - core.ranks.begin());
    core.since = now + wake_ - turn_;
  }
  passLooks(core, now);
  own.is_awake = true;
  choose(core);
}

void CoreTurns::end(int32_t position, Picoseconds now) {
  Rank& own = rank(position);
  Core& core = cores_[own.core];
  own.has_work = core.is_taken = false;
  own.idle_since = now;
  core.at = after(core, core.at);
  core.since = now;
  choose(core);
}

Picoseconds CoreTurns::next() const {
  Picoseconds next = kNever;
  for (const Core& core : cores_) next = std::min(next, core.next);
  return next;
}

int32_t CoreTurns::pop(Picoseconds now) {
  for (Core& core : cores_)
    while (core.next <= now)
      if (popFrom(core, now)) return core.ranks[core.at];
  return -1;
}

// Whether a rank may begin; otherwise one has blocked.
bool CoreTurns::popFrom(Core& core, Picoseconds now) {
  core.at = core.chosen;
  core.since = now;
  Rank& own = rankAt(core, core.at);
  core.is_taken = own.has_work;
  if (!own.has_work) {
    own.is_awake = false;
    core.at = after(core, core.at);
  }
  choose(core);
  return core.is_taken;
}

}  // namespace horing
