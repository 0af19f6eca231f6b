#pragma once
// Numbers in text that a program wrote: the same under every locale of the calling program. formatString() writes them so.
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace horing {

// The number that `text` begins with, which is taken off it; nothing: it begins with none, or with one too large.
template <typename Number>
std::optional<Number> takeNumber(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// The number that is all of `text`.
template <typename Number>
std::optional<Number> numberOf(std::string_view text) {
  const std::optional<Number> number = takeNumber<Number>(text);
  return text.empty() ? number : std::nullopt;
}

}  // namespace horing
