#pragma once
// A call of a collective, already checked: what to do, and where.
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

// What a call does. Calls with equal specs differ only in memory and number, unless their blocks have tables, whose contents may
// change.
struct CallSpec {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  bool uneven = false;  // see Extent, like the count, the blocks and their order
  int root = 0;         // rank, where the collective has one
  size_t count = 0;
  Blocks input_blocks;
  Blocks output_blocks;
  const int32_t* block_of_position = nullptr;
  // Digest of the counts of the list that was packed into this call, the same on every rank. 0: no list.
  uint64_t list = 0;
  // The name, in the catalogue of algorithms, of the one that the caller asks for. Null: none.
  const char* algorithm = nullptr;

  Extent extent() const { return {count, uneven, input_blocks, output_blocks, block_of_position}; }
  bool operator==(const CallSpec&) const = default;
};

// Where this rank's part of a call is, and how it reaches the other ranks' parts. All of it is borrowed for the call.
struct CallMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // For premulsum: this rank's factor; if factor_at is not null, the factor is read from there when the operation begins.
  Factor factor;
  const void* factor_at = nullptr;
  // factor_at is in pinned host memory, in a call whose buffers are on a GPU.
  bool factor_is_pinned = false;
  // The inputs of all ranks, by position, if schedules read them.
  const std::byte* const* peer_inputs = nullptr;
  // Reads those inputs, if nothing is folded. Null: they are mapped here.
  PeerReader* reader = nullptr;
  // The outputs of all ranks, by position, if schedules write them.
  std::byte* const* peer_outputs = nullptr;
  // Copies buffers in GPU memory, slice by slice, if nothing is folded. Null: they are in host memory.
  MemoryCopier* copier = nullptr;
};

struct Call : CallSpec, CallMemory {
  int64_t timeout_ms = 0;  // of this call; 0: the communicator's
};

// The sizes that all ranks must agree on, as one number: the count; for lists and for blocks that differ in size kCountsDiffer, with a
// digest where each rank knows all sizes.
uint64_t agreedCount(const CallSpec& spec, int ranks);
// Digest of everything that the ranks must agree on, except the call's number.
uint64_t digestOf(const CallSpec& spec, const Schedule& schedule);

}  // namespace horing
