#include "base/byte_size.h"

#include <charconv>
#include <cmath>

#include "base/printable.h"

namespace horing {

namespace {

constexpr double kMostBytes = 0x1p62;
constexpr size_t kMostShown = 40;

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"", 1},         {"B", 1},      {"K", 0x1p10},   {"k", 0x1p10}, {"KiB", 0x1p10},
                           {"M", 0x1p20},   {"m", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30}, {"g", 0x1p30},
                           {"GiB", 0x1p30}, {"T", 0x1p40}, {"TiB", 0x1p40}, {"kB", 1e3},   {"MB", 1e6},
                           {"GB", 1e9},     {"TB", 1e12}};

}  // namespace

Result<uint64_t> parseBytes(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::general);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (error == std::errc() && std::isfinite(number) && !std::signbit(number))
    for (const Unit& known : kUnits)
      if (unit == known.name && number * known.bytes <= kMostBytes)
        return static_cast<uint64_t>(std::llround(number * known.bytes));
  return makeStatus(Code::kInvalidArgument,
                    "'%s' is not a number of bytes such as 8, 4K, 1.5MiB or 2G (powers of 1024), or 80GB",
                    printable(text, kMostShown).c_str());
}

}  // namespace horing
