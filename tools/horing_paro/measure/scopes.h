#pragma once
// The three communicators that PaRO needs, of one rank: all ranks, its group, its rail; and collectives on plain buffers in them.
#include "horing_paro/cost.h"
#include "horing_paro/train/communicator.h"

namespace horing::paro {

// Bytes of an element of bfloat16, float32 or float64.
size_t bytesOf(horingDataType_t type);

// Memory of the caller.
struct Part {
  char* data;
  size_t bytes;
};

// One thread. Neither copied nor moved.
class Scopes {
 public:
  // Collective. `global` must outlive it; its groups have one size. Errors: those of splitting.
  explicit Scopes(horingComm_t global) : global_(global) {}
  Status open();

  const Grid& grid() const { return grid_; }
  horingComm_t global() const { return global_; }
  int rank() const { return global_place_.rank; }

  // One collective on the whole vector, which divides by the ranks; blocks until complete. Reductions average, as PaRO does.
  // In place:
  Status run(horingParoScope_t scope, horingParoCollective_t collective, Part vector, horingDataType_t type);
  // From `own`:
  Status allGather(horingParoScope_t scope, const char* own, Part vector, horingDataType_t type);
  // In place; this rank's part:
  Result<Part> reduceScatter(horingParoScope_t scope, Part vector, horingDataType_t type);
  // The slowest rank's value, on all ranks.
  Result<double> slowest(double value);

 private:
  horingComm_t at(horingParoScope_t scope) const;
  Result<Part> partOf(horingParoScope_t scope, Part vector) const;

  horingComm_t global_;
  Communicator group_, rail_;
  Place global_place_;
  Grid grid_;
};

}  // namespace horing::paro
