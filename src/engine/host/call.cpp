#include "engine/host/call.h"

#include "base/flight_recorder.h"
#include "engine/host/message_tag.h"

namespace horing {

uint64_t digestOf(const CallSpec& spec, const Schedule& schedule) {
  uint64_t digest = mixBits(agreedCount(spec, schedule.ranks));
  digest =
      mixBits(digest ^ (static_cast<uint64_t>(schedule.root) << 32 | static_cast<uint64_t>(spec.type) << 16 |
                        static_cast<uint64_t>(spec.op) << 8 | static_cast<uint64_t>(schedule.collective)));
  if (spec.block_of_position) digest = mixBits(digest);
  // Also if this is the algorithm that others run without asking for it.
  if (spec.algorithm) digest = mixBits(digest ^ 1);
  for (const char c : schedule.algorithm) digest = mixBits(digest ^ static_cast<unsigned char>(c));
  return digest;
}

uint64_t agreedCount(const CallSpec& spec, int ranks) {
  if (spec.list) return spec.list | kCountsDiffer;
  if (!spec.uneven) return spec.count;
  // In gather, scatter and all-to-all no rank, except perhaps the root, knows all blocks.
  if (spec.collective != Collective::kAllGather && spec.collective != Collective::kReduceScatter)
    return kCountsDiffer;
  const Blocks& blocks = spec.input_blocks.given() ? spec.input_blocks : spec.output_blocks;
  uint64_t digest = 0;
  for (int rank = 0; rank < ranks; ++rank) digest = mixBits(digest ^ blocks.counts[rank]);
  return digest | kCountsDiffer;
}

}  // namespace horing
