#pragma once
// The critical path of a simulated collective: the chain of dependencies from the last slice back to the start.
#include <span>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace horing {

// One link of the chain. The links follow each other without gaps, and together take the whole time.
struct PathSegment {
  // kLine: a message on a line, including the wait for earlier messages of the connection. kLatency: from leaving to arriving. kCore:
  // computing, or waiting for a core. kCredit: a credit in flight.
  enum class Kind : uint8_t { kLine, kLatency, kCore, kCredit };
  Kind kind = Kind::kCore;
  bool crosses_nodes = false;  // whether the message does
  Picoseconds begin = 0, end = 0;
  int32_t slice =
      kNoRecord;  // into slice_records: the slice that computes, or that receives the message or credit
  int32_t message = kNoRecord;  // into message_records
};

// The path from start to end, for a result with records of a simulation of `network`.
std::vector<PathSegment> criticalPath(const SimulationResult& result, const FoldedNetwork& network);

// A sum over segments of one kind.
struct PathShare {
  std::string name;  // "lines between nodes"
  Picoseconds time = 0;
  int32_t segments = 0;
};
// Largest first; without segments that take no time.
std::vector<PathShare> pathShares(std::span<const PathSegment> path);

}  // namespace horing
