#pragma once
// Which ranks share a core if ranks are bound to cores and may outnumber them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace horing {

// The core of each rank of a machine, below `cores` (> 0). `local_ranks`: the local ranks on their nodes; a machine may emulate several
// nodes. Ranks are spread evenly over cores. Ranks with the same local rank, which communicate, get different cores if possible. With a
// core for each rank the order is the ranks' order.
std::vector<size_t> coresOfRanks(std::span<const int32_t> local_ranks, size_t cores);

}  // namespace horing
