#pragma once
// Computes the numbers of a machine (sim/machine_model.h) from the times of messages between pairs of ranks. A pure function.
//
// Each reading is the time of an *exchange*: a rank sends a message to one rank and receives one of the same size from another (or the
// same) rank, both at once: two steps for its core. A *burst* is kBurst exchanges at once.
#include <cstddef>
#include <string>
#include <vector>

#include "sim/machine_model.h"

namespace horing {

inline constexpr int kBurst = 8;
// What tells how much a link passes at once when it is rested: messages that are larger than that, one by itself and a few at once.
inline constexpr size_t kRestedBytes = 96 << 10;
inline constexpr int kRestedAtOnce = 4;

// The time of an exchange between two ranks.
struct PairTime {
  double us = 0;
  int first = 0;
  int second = 0;
};

// The time for links of one class: the median, or the slowest if it is slower by more than noise, because a ring waits for its slowest
// link.
struct TimeOfPairs {
  double us = 0;
  double median_us = 0;
  std::string unequal;  // the slow pair and its factor; empty if the median counts
};
// `pairs` holds at least one.
TimeOfPairs timeOfPairs(std::vector<PairTime> pairs);

// A reading is 0 if it could not be taken: no second rank in any group, or no second group.
struct MachineReadings {
  int32_t groups = 1;
  int32_t members = 1;  // of the largest group
  double cores = 0;     // of a node, or of the machine that all nodes share; 0: one for each rank
  Owner cores_of = Owner::kNode;
  double patience_us = 0;  // how long a rank waits before it blocks
  size_t large_bytes = 0;  // of large messages between groups; small messages have few bytes
  size_t near_bytes = 0;   // of large messages in a group
  double near_small_us = 0, near_large_us = 0;  // two ranks of one group, all others asleep (timeOfPairs)
  // The same for two ranks of one group that are bound to one core.
  double same_core_small_us = 0, same_core_large_us = 0;
  double near_burst_us = 0;                   // small; two ranks of one group, all others asleep
  double far_small_us = 0, far_large_us = 0;  // two ranks of two groups, all others asleep (timeOfPairs)
  double far_burst_us = 0;                    // small; two ranks of two groups, all others asleep
  // kRestedBytes after a rest; one exchange and kRestedAtOnce; two ranks of two groups, all others asleep. 0: not measured
  double far_rested_us = 0, far_rested_more_us = 0;
  std::string unequal;           // links that are slower than others of their class: a line for each reading
  double far_handling_us = 0;    // time of a rank's core for a large message between groups
  double near_crowd_us = 0;      // small; all ranks at once, each in a ring through its group
  double far_crowd_us = 0;       // small; all ranks at once, each in a ring through the groups
  double far_shared_us = 0;      // large; all ranks of two groups at once, in pairs
  int32_t sharing = 1;           // pairs of far_shared_us
  double wake_us = 0;            // how much longer a rank takes to answer if it had blocked
  double fold_gbytes_per_s = 0;  // one operand folded into another, by one core
};

MachineModel fitMachine(const MachineReadings& readings);
// The readings in readable form, one to a line, each begun with "# ".
std::string describeReadings(const MachineReadings& readings);

}  // namespace horing
