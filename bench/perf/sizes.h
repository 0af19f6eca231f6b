#pragma once
// Sizes as people write them, and the counts that a size means for each collective.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace horing::perf {

// "8", "4K", "1.5M", "2G": bytes, with a binary suffix (either case) and a fraction if wanted.
// Errors: kInvalidArgument for anything else, negative or beyond 2^62.
Result<uint64_t> parseSize(std::string_view text);

// What one operation of a given size moves, per rank.
struct Counts {
  size_t argument = 0;  // the count handed to the collective
  size_t send = 0;      // elements of the send buffer
  size_t receive = 0;   // elements of the receive buffer
  uint64_t bytes = 0;   // of the larger of the two: the "size" of the table
};

// The largest operation of at most `bytes`. Blocks of all-gather and reduce-scatter are multiples of 16
// bytes.
Counts countsFor(Collective collective, DataType type, int ranks, uint64_t bytes);

// What a link has to carry for each byte of size, so that figures of different numbers of ranks compare:
// 2(n-1)/n for all-reduce, (n-1)/n for reduce-scatter and all-gather.
double busFactor(Collective collective, int ranks);

}  // namespace horing::perf
