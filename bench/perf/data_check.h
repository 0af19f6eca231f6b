#pragma once
// Inputs whose exact result is known and does not depend on the order of reduction, and the comparison with
// it.
//
// Each element of each rank is a function of (seed, element, rank), so every rank can make its input and what
// it must receive, in time that does not depend on the number of ranks. With p the bits of precision of the
// type:
//   sum      a target goes to one rank; further ranks get pairs +d, -d. All magnitudes together are at most
//   2^p units, so
//            no partial sum, in whatever order, is rounded. Integers use their whole range and wrap around.
//   prod     a target goes to one rank, others get pairs 2, 1/2 (integers: 3 and its inverse modulo 2^width),
//   others 1. min, max a target goes to one rank, others are at it or on the losing side of it. avg floating
//   point: two ranks are not zero. 1/ranks is not exact, so 2 units in the last place are allowed.
//            Integers: as sum, and the total is divided.
//   band, bor  a target goes to one rank, others have further bits set, or only some of its bits. bxor: as sum,
//            with pairs d, d.
//   no operation   random bits.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/types.h"

namespace horing::perf {

// A value. All ranks must use the same one.
struct CheckedOperation {
  DataType type = DataType::kFloat32;
  std::optional<RedOp> op;  // none: data is moved, not reduced
  int ranks = 1;
  uint64_t seed = 0;
};

// Fills elements first .. first + elements - 1 of what `rank` sends. `out` is aligned to an element.
void fillInput(const CheckedOperation& operation, int rank, uint64_t first, std::byte* out, size_t elements);
// Fills what these elements must be wherever they arrive.
void fillExpected(const CheckedOperation& operation, uint64_t first, std::byte* out, size_t elements);
// How many elements differ by more than the operation allows.
uint64_t countWrong(const CheckedOperation& operation, const std::byte* actual, const std::byte* expected,
                    size_t elements);

}  // namespace horing::perf
