#pragma once
// The words that selection tables and HORING_ALGO share.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "schedule/postcondition.h"

namespace horing {

// As parseBytes(); nothing if invalid.
std::optional<size_t> parseTableBytes(std::string_view word);
// In the format of parseTableBytes(), in the largest unit that gives a whole number.
std::string tableBytesText(size_t bytes);
std::optional<Collective> parseCollective(std::string_view word);

// Removes and returns the text up to the separator, and removes the separator; all of the text if there is none.
std::string_view takeUntil(std::string_view& text, char separator);

}  // namespace horing
