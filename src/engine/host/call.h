#pragma once
// A call of a collective, already checked: what it does, and where.
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "base/types.h"
#include "engine/host/fold.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"

namespace horing {

class MemoryCopier;

// Reads memory of other ranks that is not mapped here.
class PeerReader {
 public:
  virtual ~PeerReader() = default;
  // Complete on return. `from`: an address in the process of the rank at that position.
  virtual Status read(int32_t position, std::byte* to, const std::byte* from, size_t bytes) = 0;
};

// What a call does. Calls with equal specs differ in their memory and number only, unless their blocks have tables, whose contents may
// change.
struct CallSpec {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  bool uneven = false;  // see Extent, as the count, the blocks and their order
  int root = 0;         // rank, where the collective has one
  size_t count = 0;
  Blocks input_blocks;
  Blocks output_blocks;
  const int32_t* block_of_position = nullptr;
  // Of the list that was packed into this call: a digest of the counts, the same on every rank. 0: there is no list.
  uint64_t list = 0;

  Extent extent() const { return {count, uneven, input_blocks, output_blocks, block_of_position}; }
  bool operator==(const CallSpec&) const = default;
};

// Where this rank's part of a call is, and how it reaches that of others. All of it is borrowed for the call.
struct CallMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // Of premulsum, this rank's own: the factor, or, if not null, where one element is read when the operation begins.
  Factor factor;
  const void* factor_at = nullptr;
  bool factor_is_pinned =
      false;  // factor_at is in pinned memory of the host, in a call whose buffers are on a GPU
  // The inputs of all ranks, by position, where schedules read them.
  const std::byte* const* peer_inputs = nullptr;
  // Reads them, where nothing is folded. Null: they are mapped here.
  PeerReader* reader = nullptr;
  // The outputs of all ranks, by position, where schedules write them.
  std::byte* const* peer_outputs = nullptr;
  // Copies buffers that are in a GPU's memory, slice by slice, where nothing is folded. Null: they are in memory of the host.
  MemoryCopier* copier = nullptr;
};

struct Call : CallSpec, CallMemory {};

// What all ranks must pass alike of the sizes: the count, or, where there are several, kCountsDiffer and what it says.
uint64_t agreedCount(const CallSpec& spec, int ranks);
// Of all that the ranks must agree on, but for the call's number.
uint64_t digestOf(const CallSpec& spec, const Schedule& schedule);

}  // namespace horing
