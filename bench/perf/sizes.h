#pragma once
// Sizes as people write them.
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace horing::perf {

// "8", "4K", "1.5M", "2G": bytes, with a binary suffix (either case) and a fraction if wanted.
// Errors: kInvalidArgument for anything else, negative or beyond 2^62.
Result<uint64_t> parseSize(std::string_view text);

}  // namespace horing::perf
