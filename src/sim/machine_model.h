#pragma once
// What a machine costs, in a few numbers: a machine that somebody has, wants, or emulates.
//
//   nodes = 16
//   ranks_per_node = 8
//   nic = rank                  # or node: one for all its ranks
//   inter_latency_us = 5
//   inter_gbytes_per_s = 12.5   # of each NIC, in each direction at once
//   intra_latency_us = 2
//   intra_gbytes_per_s = 200    # of each rank's port, in each direction at once
//
// One "key = value" to a line, "#" starts a comment; describeMachine() prints all keys.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace horing {

// Simulated time. Whole numbers, so that what happens at the same moment does so exactly, on every computer.
using Picoseconds = int64_t;
inline constexpr double kPicosecondsPerMicrosecond = 1e6;

inline constexpr int32_t kMaxModelNodes = 1 << 16;
inline constexpr int32_t kMaxModelRanksPerNode = 1 << 12;
inline constexpr size_t kMaxMachineTextBytes = 1 << 16;

// What it costs to send a message of b bytes: (b / rate) on the line, then the latency, during which the line is free for the
// next one. Rates of 0 mean without limit, for nothing here is infinitely slow.
struct LinkModel {
  double latency_us = 0;
  double gbytes_per_s = 0;      // 10^9 bytes; of one port, in each direction at once
  double message_us = 0;        // of a core, at each end, for each message
  double cpu_gbytes_per_s = 0;  // at which a core hands bytes to the link and takes them from it
  double start_us =
      0;  // as message_us, more for a message that finds its line empty: those behind it share its calls
};

enum class Owner : uint8_t { kRank, kNode, kMachine };

// Which links the numbers speak of: a measurement on one node knows nothing of those between nodes.
enum class Links : uint8_t { kBoth, kInside, kBetween };

// A value.
struct MachineModel {
  int32_t nodes = 2;
  int32_t ranks_per_node = 8;
  LinkModel between{5, 12.5, 0, 0, 0};  // nodes
  LinkModel inside{2, 200, 0, 0, 0};    // a node
  // As inside.cpu_gbytes_per_s, where ranks take turns and both have one core. A text that leaves it out means the same.
  double same_core_cpu_gbytes_per_s = 0;
  Links links = Links::kBoth;      // the others' numbers are without meaning, and not described
  Owner nic = Owner::kRank;        // or kNode: the ranks of a node share one
  double memory_gbytes_per_s = 0;  // of what the ranks of a node send each other, all together
  double cores = 0;                // 0: as many as there are ranks
  Owner cores_of = Owner::kNode;   // or kMachine: all nodes share them, as emulated ones do
  double step_us = 0;              // of a core, for each slice of a step
  double copy_gbytes_per_s = 0;    // of a core, for each place that a value is stored in
  double fold_gbytes_per_s = 0;    // of a core, for two operands folded; a third of that for each more
  // Of a core, for a rank to go on that had nothing to do. Where ranks share cores it is what each turn costs that a rank takes on
  // its core, also one in which it finds nothing to do (core_turns.h); 0: they share them evenly.
  double turn_us = 0;
  double wake_us = 0;      // the same of one that had nothing to do for so long that it blocked
  double patience_us = 0;  // how long that is

  int32_t ranks() const { return nodes * ranks_per_node; }
};
// More ranks than cores.
constexpr bool sharesCores(const MachineModel& machine) {
  const int32_t ranks = machine.cores_of == Owner::kMachine ? machine.ranks() : machine.ranks_per_node;
  return machine.cores > 0 && ranks > machine.cores;
}

// Picoseconds for one byte; 0 where the rate is without limit.
constexpr double picosecondsPerByte(double gbytes_per_s) {
  return gbytes_per_s > 0 ? 1000 / gbytes_per_s : 0;
}
Picoseconds toPicoseconds(double microseconds);
double toMicroseconds(Picoseconds time);

// The defaults with what `text` changes. Errors are kInvalidArgument, name `source` and the line, and say what was expected: a
// line without "=", an unknown key or one given twice, a number that is none, negative or too large.
Result<MachineModel> parseMachine(std::string_view text, std::string_view source);
// Errors as in parseMachine(); a file that cannot be read, or is longer than kMaxMachineTextBytes.
Result<MachineModel> readMachine(const std::string& path);
// All keys that say something of it, as parseMachine() takes them.
std::string describeMachine(const MachineModel& machine);
// kInvalidArgument: the machine has links of which its description says nothing, so that nothing can be predicted for it.
Status checkLinksKnown(const MachineModel& machine);

}  // namespace horing
