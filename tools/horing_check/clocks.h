#pragma once
// How far the clocks of the nodes are apart.
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "horing_check/nodes.h"

namespace horing::check {

struct ClockOffset {
  double offset_s = 0;  // above 0: ahead of the clock of most
  double uncertainty_s = 0;
};
// By more than what is uncertain, and a tenth of a second.
bool isOff(const ClockOffset& clock);

// What a node's clock shows before and after an all-gather, since 1970.
struct ClockReading {
  int64_t before_ns = 0, after_ns = 0;
};
// By node. `turns`: all-gathers, each with a reading of every node; at least one. No node has left an all-gather before every node has come to
// it, which limits how far two clocks can be apart; the narrowest limits count. Pure.
std::vector<ClockOffset> offsetsOf(const std::vector<std::vector<ClockReading>>& turns);

// Collective over the nodes. Errors: the library's.
Result<std::vector<ClockOffset>> measureClocks(Nodes& nodes);

}  // namespace horing::check
