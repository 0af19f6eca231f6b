#include "comm/total_bytes.h"

#include <numeric>

#include "schedule/postcondition.h"

namespace horing {

size_t totalBytes(Collective collective, const Call& call, int ranks) {
  const Blocks& table = call.input_blocks.given() ? call.input_blocks : call.output_blocks;
  if (table.given())
    return std::accumulate(table.counts, table.counts + ranks, size_t{0}) * dataTypeBytes(call.type);
  return call.count * dataTypeBytes(call.type) * blocksOf(collective, ranks);
}

}  // namespace horing
