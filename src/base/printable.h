#pragma once
// Foreign text as messages may show it.
#include <string>
#include <string_view>

namespace horing {

// At most `limit` bytes of it, with '?' for what is not printable ASCII.
inline std::string printable(std::string_view text, size_t limit) {
  std::string safe(text.substr(0, limit));
  for (char& letter : safe)
    if (letter < 0x20 || letter > 0x7e) letter = '?';
  return safe;
}

}  // namespace horing
