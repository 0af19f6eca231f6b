#pragma once
// Ranks that outnumber the cores: they take turns on them.
//
// Each core has its ranks, in a ring. Whose turn it is switches to the core and looks, which takes turn_us; if it has something to
// do it keeps the core until that is done, else it yields, and the next one takes its turn. So whoever has something to do waits
// until all before it have looked. A rank that finds nothing when it has had nothing to do for as long as its patience blocks, and
// takes no turn until something comes for it. If then its core has nothing else to do, it needs wake_us in place of turn_us to be there.
//
// Nothing is computed for a turn in which nothing is found.
#include <cstdint>
#include <vector>

#include "sim/folding.h"
#include "sim/machine_model.h"

namespace horing {

// Ranks outnumber cores, and a turn costs something.
constexpr bool takesTurns(const MachineModel& machine) {
  return sharesCores(machine) && machine.turn_us > 0;
}
// Ranks of one node wait for those of another, so that no node can stand for all.
constexpr bool nodesTakeTurns(const MachineModel& machine) {
  return takesTurns(machine) && machine.cores_of == Owner::kMachine;
}

// The number of the core of each simulated position, different ones for nodes with cores of their own; empty: nobody takes turns.
std::vector<size_t> coresOfPositions(const MachineModel& machine, const Folding& folding);

// A value. Times of calls do not decrease.
class CoreTurns {
 public:
  // The ranks that `folding` simulates; where nodesTakeTurns(), that is all. Everyone is awake at first, and on each core the first
  // one's turn has come.
  CoreTurns(const MachineModel& machine, const Folding& folding);

  // A rank that had nothing to do has something.
  void begin(int32_t rank, Picoseconds now);
  // One whose turn it is has nothing to do any more.
  void end(int32_t rank, Picoseconds now);

  static constexpr Picoseconds kNever = INT64_MAX;
  // When a rank may begin, or blocks; kNever: not before the next call of begin() or end().
  Picoseconds next() const;
  // One that may begin with what it has to do, and then keeps its core until end(); -1: none any more at `now`. After all calls of
  // begin() and end() of a moment.
  int32_t pop(Picoseconds now);

 private:
  struct Rank {
    size_t core = 0;
    bool is_awake = true;
    bool has_work = false;
    Picoseconds idle_since = 0;
  };
  struct Core {
    std::vector<int32_t> ranks;
    size_t at = 0;          // whose turn it is, if any of them is awake
    Picoseconds since = 0;  // when it began
    bool is_taken = false;  // by one that works
    size_t chosen = 0;      // whose turn ends at `next`
    Picoseconds next = kNever;
  };

  Rank& rank(int32_t position) { return ranks_[static_cast<size_t>(position)]; }
  Rank& rankAt(const Core& core, size_t index) { return rank(core.ranks[index]); }
  size_t after(const Core& core, size_t index);
  int32_t awake(const Core& core);
  void passLooks(Core& core, Picoseconds now);
  void choose(Core& core);
  bool popFrom(Core& core, Picoseconds now);

  const Picoseconds turn_, wake_, patience_;
  std::vector<Rank> ranks_;
  std::vector<Core> cores_;
};

}  // namespace horing
