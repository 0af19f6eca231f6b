#pragma once
// Memory of one NUMA node, read by a core of another.
#include <chrono>
#include <cstdint>
#include <vector>

#include "horing_check/inside_paths.h"
#include "topology/machine_graph.h"

namespace horing::check {

// A NUMA node of which this process may use processors.
struct NumaPlace {
  std::string name;           // "0"
  int32_t package = -1;       // in the graph; -1: unknown
  std::vector<int32_t> cpus;  // that it may use
};

// Moves the calling thread to these processors; whether it could.
bool moveTo(const std::vector<int32_t>& cpus);

// Those of the graph whose processors are among `usable`, ascending. Pure.
std::vector<NumaPlace> numaPlaces(const MachineGraph& graph, const std::vector<int32_t>& usable);

// What one core copies from each of them to each other, one pair after the other; a second at most, more only with hundreds, and no pair is
// begun at `latest` or later. None if there is one. Moves the calling thread to these processors, and back. Pairs between which the kernel
// does not move it are left out.
InsidePaths pathsBetween(const std::vector<NumaPlace>& places, std::chrono::steady_clock::time_point latest);
InsidePaths numaPaths(const MachineGraph& graph, std::chrono::steady_clock::time_point latest);

}  // namespace horing::check
