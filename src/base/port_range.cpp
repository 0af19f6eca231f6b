#include "base/port_range.h"

#include <charconv>

namespace horing {

Result<PortRange> parsePortRange(const std::string& text) {
  PortRange range;
  if (text.empty()) return range;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  const bool has_dash = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
  const auto last = std::from_chars(has_dash ? first.ptr + 1 : end, end, range.last);
  if (last.ec == std::errc() && last.ptr == end && range.first >= 1 && range.first <= range.last)
    return range;
  return makeStatus(Code::kInvalidArgument,
                    "HORING_PORTS=%s: expected FIRST-LAST, of 1 to 65535, like 30000-30999", text.c_str());
}

}  // namespace horing
