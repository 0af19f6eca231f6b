#include "selection/table_words.h"

#include <charconv>
#include <cstdint>

#include "base/status.h"

namespace horing {

std::optional<size_t> parseTableBytes(std::string_view word) {
  int shift = 0;
  const size_t unit = std::string_view("KMG").find(word.empty() ? ' ' : word.back());
  if (unit != std::string_view::npos) {
    shift = 10 * (static_cast<int>(unit) + 1);
    word.remove_suffix(1);
  }
  size_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value > SIZE_MAX >> shift)
    return std::nullopt;
  return value << shift;
}

std::string tableBytesText(size_t bytes) {
  size_t unit = 0;
  for (; unit < 3 && bytes != 0 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  const std::string number = formatString("%zu", bytes);
  return unit == 0 ? number : number + "KMG"[unit - 1];
}

std::optional<Collective> parseCollective(std::string_view word) {
  for (int number = 0; number < kCollectives; ++number)
    if (word == collectiveName(static_cast<Collective>(number))) return static_cast<Collective>(number);
  return std::nullopt;
}

}  // namespace horing
