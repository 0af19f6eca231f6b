#pragma once
// Numbers in text, independent of the calling program's locale. formatString() writes them in this form.
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace horing {

// Parses the number at the beginning of `text` and removes it from `text`; nothing if there is no number, or one out of range.
template <typename Number>
std::optional<Number> takeNumber(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Parses all of `text` as a number.
template <typename Number>
std::optional<Number> numberOf(std::string_view text) {
  const std::optional<Number> number = takeNumber<Number>(text);
  return text.empty() ? number : std::nullopt;
}

}  // namespace horing
