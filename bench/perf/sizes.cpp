#include "perf/sizes.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace horing::perf {

namespace {

Status notASize(std::string_view text) {
  return makeStatus(Code::kInvalidArgument,
                    "'%.*s' is not a size: expected a number of bytes such as 8, 4K, 1.5M or 2G",
                    static_cast<int>(text.size()), text.data());
}

// 0 for a letter that is no suffix.
double suffixFactor(std::string_view suffix) {
  if (suffix.empty()) return 1;
  if (suffix.size() > 1) return 0;
  switch (suffix[0]) {
    case 'k':
    case 'K':
      return 1024.0;
    case 'm':
    case 'M':
      return 1024.0 * 1024;
    case 'g':
    case 'G':
      return 1024.0 * 1024 * 1024;
    default:
      return 0;
  }
}

}  // namespace

Result<uint64_t> parseSize(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number(text.substr(0, digits));
  const double factor =
      suffixFactor(digits == std::string_view::npos ? std::string_view() : text.substr(digits));
  if (number.empty() || factor == 0) return notASize(text);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  constexpr double kLargest = 4611686018427387904.0;  // 2^62
  if (*end != '\0' || end == number.c_str() || value * factor > kLargest) return notASize(text);
  return static_cast<uint64_t>(std::llround(value * factor));
}

}  // namespace horing::perf
