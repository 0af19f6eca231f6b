#pragma once
// From what messages between pairs of ranks took to the numbers of a machine (sim/machine_model.h). A pure function.
//
// An *exchange* is what a reading is of: a rank sends a message to one rank and takes one of the same size from another (or the
// same), both at once: two steps for its core. A *burst* is kBurst of them at once.
#include <cstddef>
#include <string>
#include <vector>

#include "sim/machine_model.h"

namespace horing {

inline constexpr int kBurst = 8;

// What an exchange of two ranks took.
struct PairTime {
  double us = 0;
  int first = 0;
  int second = 0;
};

// Of links of one class: the median, or the slowest where it is slower by more than noise, for what goes round waits for it.
struct TimeOfPairs {
  double us = 0;
  double median_us = 0;
  std::string unequal;  // which, and by how much; empty where the median counts
};
// At least one.
TimeOfPairs timeOfPairs(std::vector<PairTime> pairs);

// Readings of 0 are of what there is not: no second rank in any group, no second group.
struct MachineReadings {
  int32_t groups = 1;
  int32_t members = 1;  // of the largest group
  double cores = 0;     // of a node, or of the machine that all of them share; 0: one for each rank
  Owner cores_of = Owner::kNode;
  double patience_us = 0;  // how long a rank waits before it blocks
  size_t large_bytes = 0;  // of large messages between groups; small ones are of few bytes
  size_t near_bytes = 0;   // of large messages in a group
  double near_small_us = 0, near_large_us = 0;  // two ranks of one group, all others asleep (timeOfPairs)
  // The same of two ranks of one group that are bound to one core.
  double same_core_small_us = 0, same_core_large_us = 0;
  double near_burst_us = 0;                   // small; two ranks of one group, all others asleep
  double far_small_us = 0, far_large_us = 0;  // two ranks of two groups, all others asleep (timeOfPairs)
  double far_burst_us = 0;                    // small; two ranks of two groups, all others asleep
  std::string unequal;                        // links of one class that are not: a line for each reading
  double far_handling_us = 0;                 // of a rank's core, for a large one between groups
  double near_crowd_us = 0;                   // small; all ranks at once, each in a ring through its group
  double far_crowd_us = 0;                    // small; all ranks at once, each in a ring through the groups
  double far_shared_us = 0;                   // large; all ranks of two groups at once, in pairs
  int32_t sharing = 1;                        // pairs of far_shared_us
  double wake_us = 0;                         // longer answer of a rank that had blocked
  double fold_gbytes_per_s = 0;               // one operand folded into another, by one core
};

MachineModel fitMachine(const MachineReadings& readings);
// The readings for people, one to a line, each begun with "# ".
std::string describeReadings(const MachineReadings& readings);

}  // namespace horing
