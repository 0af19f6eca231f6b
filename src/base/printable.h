#pragma once
// Untrusted text made safe for messages.
#include <string>
#include <string_view>

namespace horing {

// At most `limit` bytes of the text, with '?' for each byte that is not printable ASCII.
inline std::string printable(std::string_view text, size_t limit) {
  std::string safe(text.substr(0, limit));
  for (char& letter : safe)
    if (letter < 0x20 || letter > 0x7e) letter = '?';
  return safe;
}

}  // namespace horing
