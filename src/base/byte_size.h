#pragma once
// Numbers of bytes as people write them.
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace horing {

// "4096", "64K", "1.5M", "2GiB", "1T": up to 2^62 bytes, in powers of 1024 (k, m and g are the same), with a fraction or
// an exponent (1e9) if wanted; "80GB", "10kB" in those of 1000. Errors: kInvalidArgument for all else, such as KB, which may be either.
Result<uint64_t> parseBytes(std::string_view text);

}  // namespace horing
