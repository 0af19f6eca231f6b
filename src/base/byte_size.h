#pragma once
// Byte sizes in text: "64K", "2GiB".
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace horing {

// "4096", "64K", "1.5M", "2GiB", "1T": up to 2^62 bytes, in powers of 1024 (k, m and g are the same), optionally with a fraction or an
// exponent (1e9); "80GB" and "10kB" are in powers of 1000. Errors: kInvalidArgument for any other text, such as KB, which is ambiguous.
Result<uint64_t> parseBytes(std::string_view text);

}  // namespace horing
