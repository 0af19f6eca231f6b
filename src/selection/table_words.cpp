#include "selection/table_words.h"

#include <algorithm>
#include <cstdint>

#include "base/byte_size.h"

namespace horing {

std::optional<size_t> parseTableBytes(std::string_view word) {
  Result<uint64_t> bytes = parseBytes(word);
  return bytes.ok() ? std::optional<size_t>(bytes.value()) : std::nullopt;
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

std::string_view takeUntil(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

}  // namespace horing
