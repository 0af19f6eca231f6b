#pragma once
// The algorithms that HORING_ALGO forces.
//
//   auto                                                              nothing
//   ring                                                              ring, for every collective that it has
//   all_reduce:0-64K=direct,64K-=ho_ring;reduce_scatter=ring          by collective, and by size
//   Ring; ^NVLS; allreduce:tree,ring;broadcast:ring                   NCCL's spelling, see nccl_algorithms.h
//
// Sizes are bytes of the whole vector, both ends included, with K, M or G for powers of 1024; the first that fits is taken. Calls that no
// part covers are chosen as usual.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"
#include "base/status.h"

namespace horing {

inline constexpr size_t kMaxForcedBytes = 256;  // of text

struct ForcedRow {
  std::optional<Collective> collective;  // nothing: all collectives of the algorithm
  size_t least_bytes = 0;
  size_t most_bytes = SIZE_MAX;
  const Algorithm* algorithm = nullptr;

  bool speaksOf(Collective called) const {
    return (!collective || *collective == called) && algorithm->has(called);
  }
};

// A value.
class ForcedAlgorithms {
 public:
  // kInvalidArgument: names the invalid part and what was expected.
  static Result<ForcedAlgorithms> parse(std::string_view text);

  std::span<const ForcedRow> rows() const { return rows_; }
  // The algorithm, or null if nothing is forced.
  const Algorithm* find(Collective collective, size_t bytes) const;

 private:
  std::vector<ForcedRow> rows_;
};

}  // namespace horing
