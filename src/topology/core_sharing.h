#pragma once
// Who shares a core with whom where ranks are bound to cores, and may outnumber them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace horing {

// For each rank of a machine the number of its core, below `cores` (> 0). `local_ranks`: their numbers on their nodes, of which a machine
// may emulate several. Each core gets as many ranks as any other, or one more; those with one local rank, who talk to each
// other, get different ones as far as that goes. With a core for each rank they go in order.
std::vector<size_t> coresOfRanks(std::span<const int32_t> local_ranks, size_t cores);

}  // namespace horing
