#pragma once
// Why a simulated collective took as long as it did: the chain of what waited for what, from the last slice back to the start.
#include <span>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace horing {

// One link of the chain. The links follow each other without gaps, and together take the whole time.
struct PathSegment {
  // kLine: a message on a line, its wait for those before it on the connection included. kLatency: between leaving and arriving.
  // kCore: computing, or waiting for a core. kCredit: the news that a slot is free, on its way.
  enum class Kind : uint8_t { kLine, kLatency, kCore, kCredit };
  Kind kind = Kind::kCore;
  bool crosses_nodes = false;  // the message
  Picoseconds begin = 0, end = 0;
  int32_t slice =
      kNoRecord;  // into slice_records: whose computing it is, or to which the message or credit went
  int32_t message = kNoRecord;  // into message_records
};

// From the start to the end. Of a result with records, of a simulation of `network`.
std::vector<PathSegment> criticalPath(const SimulationResult& result, const FoldedNetwork& network);

// A sum over segments of one kind.
struct PathShare {
  std::string name;  // "lines between nodes"
  Picoseconds time = 0;
  int32_t segments = 0;
};
// The largest first; those that take no time are left out.
std::vector<PathShare> pathShares(std::span<const PathSegment> path);

}  // namespace horing
