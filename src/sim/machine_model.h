#pragma once
// The cost model of a machine, in a few numbers: a real, planned or emulated machine.
//
//   nodes = 16
//   ranks_per_node = 8          # or of each: 8, 8, 7
//   nic = rank                  # or node: one for all its ranks
//   inter_latency_us = 5
//   inter_gbytes_per_s = 12.5   # of each NIC, in each direction at once; or by node: 12.5, 12.5, 5
//   intra_latency_us = 2
//   intra_gbytes_per_s = 200    # of each rank's port, in each direction at once
//
// One "key = value" to a line, "#" starts a comment; describeMachine() prints all keys.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schedule/rails.h"

namespace horing {

// Simulated time. Integers, so that simultaneous events are exactly simultaneous on every computer.
using Picoseconds = int64_t;
inline constexpr double kPicosecondsPerMicrosecond = 1e6;

// With the most ranks of each, positions are still int32_t.
inline constexpr int32_t kMaxModelNodes = 1 << 17;
inline constexpr int32_t kMaxModelRanksPerNode = 1 << 12;
inline constexpr size_t kMaxMachineTextBytes = 1 << 16;

// The cost of a message of b bytes: (b / rate) on the line, then the latency, during which the line is free for the next message. A rate of
// 0 means unlimited.
struct LinkModel {
  double latency_us = 0;
  double gbytes_per_s = 0;      // 10^9 bytes; of one port, in each direction at once
  double message_us = 0;        // core time at each end, per message
  double cpu_gbytes_per_s = 0;  // rate at which a core sends to and receives from the link
  // Additional core time of a message on an idle line: later messages share its system calls.
  double start_us = 0;
  // Of a NIC: bytes that it passes in no time when it has rested, as shapers with a token bucket do. It recovers at its rate while idle.
  double burst_bytes = 0;
};

enum class Owner : uint8_t { kRank, kNode, kMachine };

// The links that the numbers describe: a measurement on one node does not cover links between nodes.
enum class Links : uint8_t { kBoth, kInside, kBetween };

// The parts of their rate at which the links of a node to other nodes send and receive.
struct LinkParts {
  double sends = 1, receives = 1;
};

// A value.
struct MachineModel {
  int32_t nodes = 2;
  int32_t ranks_per_node = 8;           // of the largest node
  Rails rails{};                        // the ranks of each node, if they differ
  LinkModel between{5, 12.5, 0, 0, 0};  // nodes
  LinkModel inside{2, 200, 0, 0, 0};    // a node
  // As inside.cpu_gbytes_per_s, for two ranks that take turns on one core. Default in texts: the same value.
  double same_core_cpu_gbytes_per_s = 0;
  std::vector<LinkParts> link_parts{};  // by node; empty: all have the rate of `between`
  Links links = Links::kBoth;           // the numbers of the other links are undefined and not printed
  Owner nic = Owner::kRank;             // or kNode: shared by the ranks of a node
  double memory_gbytes_per_s = 0;       // total traffic among the ranks of a node
  double cores = 0;                     // 0: one for each rank
  Owner cores_of = Owner::kNode;        // or kMachine: shared by all nodes, as with emulated nodes
  double step_us = 0;                   // core time per slice of a step
  double copy_gbytes_per_s = 0;         // rate of a core, per destination of a value
  // Rate of a core for folding two operands; each more adds a third of the time.
  double fold_gbytes_per_s = 0;
  // Core time for an idle rank to continue. If ranks share cores, the cost of each turn of a rank on its core, also of a turn without work
  // (core_turns.h); 0: ranks share cores evenly.
  double turn_us = 0;
  double wake_us = 0;      // the same for a rank that has blocked
  double patience_us = 0;  // idle time before a rank blocks

  int32_t ranks() const { return rails ? rails.ranks() : nodes * ranks_per_node; }
  int32_t ranksOf(int32_t node) const { return rails ? rails.sizeOf(node) : ranks_per_node; }
  LinkParts linksOf(int32_t node) const {
    return link_parts.empty() ? LinkParts() : link_parts[static_cast<size_t>(node)];
  }
  // NICs that work for the ranks of a node.
  int32_t nicsOf(int32_t node) const { return nic == Owner::kNode ? 1 : ranksOf(node); }
  // Nodes with these numbers of ranks. Rates by node stay if there are as many nodes.
  void setNodes(std::span<const int32_t> sizes);
  // Of each node's NICs, in 10^9 bytes per second, above 0.
  void setRates(std::span<const double> gbytes_per_s);
};
// Whether there are more ranks than cores.
inline bool sharesCores(const MachineModel& machine) {
  const int32_t ranks = machine.cores_of == Owner::kMachine ? machine.ranks() : machine.ranks_per_node;
  return machine.cores > 0 && ranks > machine.cores;
}

// Picoseconds for one byte; 0 if the rate is unlimited.
constexpr double picosecondsPerByte(double gbytes_per_s) {
  return gbytes_per_s > 0 ? 1000 / gbytes_per_s : 0;
}
Picoseconds toPicoseconds(double microseconds);
double toMicroseconds(Picoseconds time);

// Parses `text` over the defaults. Errors are kInvalidArgument and name `source`, the line, and what was expected: a line without "=", an
// unknown or repeated key, an invalid, negative or too large number, a list that does not have a number for each node.
Result<MachineModel> parseMachine(std::string_view text, std::string_view source);
// Errors: as for parseMachine(); a file that cannot be read, or is longer than kMaxMachineTextBytes.
Result<MachineModel> readMachine(const std::string& path);
// All keys with defined values, in the format of parseMachine(). Where a node sends and receives at different rates, the lower one.
std::string describeMachine(const MachineModel& machine);
// kInvalidArgument: the machine has links that its description does not cover, so that no prediction is possible.
Status checkLinksKnown(const MachineModel& machine);

}  // namespace horing
