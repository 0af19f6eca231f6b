#pragma once
// The outer ring as nodes are added: where it ought to be as fast as the wire, and where it cannot be.
#include <string_view>

#include "selection/prediction.h"

namespace horing {

// Whether rails of it are rings.
bool hasOuterRing(std::string_view algorithm);

// What keeps rails of rings from the wire; M nodes, a hop of a chunk between nodes, a row of chunks exchanged inside a node.
enum class RingLimit : uint8_t {
  kNone,
  kInside,  // M rows take as long as M-1 hops or longer: the wire waits for what is inside
  kLatency,  // M-1 latencies between nodes, twice that for all-reduce, are kMostLatency of the wire time or more
};
inline constexpr double kMostLatency = 0.04;
inline constexpr double kRingGoal = 0.95;  // wire bound / time where nothing does

// Of the wire bound `bound`, rows that go around a ring inside the nodes, and a NIC for each rank or node.
RingLimit ringLimit(const Question& question, Picoseconds bound);

// Whether one row takes less than one hop: there is no more to ask of the nodes if they are many.
bool rowIsBelowHop(const Question& question);

}  // namespace horing
