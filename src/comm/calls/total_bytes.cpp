#include "comm/calls/total_bytes.h"

#include <cstdint>
#include <numeric>

#include "base/flight_recorder.h"
#include "schedule/postcondition.h"

namespace horing {

size_t totalBytes(const CallSpec& spec, int ranks) {
  const Blocks& table = spec.input_blocks.given() ? spec.input_blocks : spec.output_blocks;
  if (table.given())
    return std::accumulate(table.counts, table.counts + ranks, size_t{0}) * dataTypeBytes(spec.type);
  return spec.count * dataTypeBytes(spec.type) * blocksOf(spec.collective, ranks);
}

size_t selectionBytes(uint64_t agreed_count, size_t total_bytes) {
  return agreed_count == kCountsDiffer ? SIZE_MAX : total_bytes;
}

}  // namespace horing
