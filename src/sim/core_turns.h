#pragma once
// Ranks that outnumber the cores take turns on them.
//
// Each core schedules its ranks round robin. The rank whose turn it is polls, which takes turn_us including the context switch; if it has
// work it keeps the core until the work is done, else it yields to the next rank. So a rank with work waits until all ranks before it have
// polled. A rank that has been idle for patience_us blocks, and takes no turn until work arrives for it. If its core is idle then, it needs
// wake_us instead of turn_us to start.
//
// Turns without work are not simulated one by one.
#include <cstdint>
#include <vector>

#include "sim/folding.h"
#include "sim/machine_model.h"

namespace horing {

// Whether ranks outnumber cores, and a turn has a cost.
inline bool takesTurns(const MachineModel& machine) {
  return sharesCores(machine) && machine.turn_us > 0;
}
// Whether ranks of different nodes share cores, so that no node can represent all.
inline bool nodesTakeTurns(const MachineModel& machine) {
  return takesTurns(machine) && machine.cores_of == Owner::kMachine;
}

// The core of each simulated position, with different numbers for nodes with separate cores; empty: no turns.
std::vector<size_t> coresOfPositions(const MachineModel& machine, const Folding& folding);

// A value. Times must not decrease from call to call.
class CoreTurns {
 public:
  // For the ranks that `folding` simulates; all ranks if nodesTakeTurns(). Initially all ranks are awake, and it is the first rank's turn
  // on each core.
  CoreTurns(const MachineModel& machine, const Folding& folding);

  // An idle rank gets work.
  void begin(int32_t rank, Picoseconds now);
  // The rank that has the core has finished its work.
  void end(int32_t rank, Picoseconds now);

  static constexpr Picoseconds kNever = INT64_MAX;
  // The next time at which a rank may begin, or blocks; kNever: not before the next begin() or end().
  Picoseconds next() const;
  // A rank that may begin its work, and then keeps its core until end(); -1: none at `now`. Call after all begin() and end() calls of that
  // time.
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
    size_t at = 0;          // the rank whose turn it is, if any is awake
    Picoseconds since = 0;  // the begin of the turn
    bool is_taken = false;  // by a working rank
    size_t chosen = 0;      // the rank whose turn ends at `next`
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
