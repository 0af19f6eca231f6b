#pragma once
// What a collective must give, to the bit: all schedules run chunk by chunk in one place, one element after the
// other, over queues without end. Knows nothing of slices, windows, slots, memory reuse or timing, which is what
// the simulation puts to the test; that the schedules themselves are right, the verifier proves.
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "../engine/reference_fold.h"
#include "engine/host/fold.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"

namespace horing::simulated {

using Bytes = std::vector<std::byte>;

// Memory that no rank has written yet.
inline constexpr std::byte kUnwritten{0xa5};

struct CollectiveCall {
  std::span<const Schedule> schedules;  // by position
  const int32_t* rank_of_position = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  // Elements of a rank's block; in all-to-all, of its block for `taker`. Null: all have `count`.
  std::function<size_t(int32_t owner, int32_t taker)> block;

  // The sizes that the rank at a position passes, as far as it knows them. Its tables are put into `tables`, with gaps between the
  // blocks.
  Extent extent(size_t position, std::vector<size_t>& tables) const;
  Layout layout(size_t position, std::vector<size_t>& tables) const {
    return Layout::make(schedules[position], extent(position, tables), rank_of_position,
                        64 / dataTypeBytes(type));
  }
  // Of the buffers at one position; 0 where it has none.
  size_t inputBytes(size_t position) const;
  size_t outputBytes(size_t position) const;
};

// What the inputs of a position are multiplied by in premulsum: exact in every type, and its own.
inline Factor factorAt(size_t position) {
  return {.number = 0.5 * static_cast<double>(position % 7 + 1), .integer = position + 2};
}

// Keeps the tables of the types that are not the machine's.
class Expectation {
 public:
  // The output of every position. `inputs`: by position.
  std::vector<Bytes> outputs(const CollectiveCall& call, const std::vector<Bytes>& inputs);

 private:
  const test::ReferenceFold& fold(DataType type, RedOp op);
  std::array<std::unique_ptr<test::ReferenceFold>, kDataTypes * kRedOps> folds_;
};

}  // namespace horing::simulated
