#pragma once
// The words that selection tables and HORING_ALGO share.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "schedule/postcondition.h"

namespace horing {

// As parseBytes(); nothing for what is none.
std::optional<size_t> parseTableBytes(std::string_view word);
// As parseTableBytes() takes it, in the largest unit that gives a whole number.
std::string tableBytesText(size_t bytes);
std::optional<Collective> parseCollective(std::string_view word);

// Takes off what comes up to the separator, and the separator; all, where there is none.
std::string_view takeUntil(std::string_view& text, char separator);

}  // namespace horing
