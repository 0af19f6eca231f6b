#pragma once
// Counts what the program allocates with new, for tests of paths that must not.
#include <cstdint>

namespace horing::testing {

uint64_t allocationsSoFar();

}  // namespace horing::testing
