#pragma once
// The words that selection tables and HORING_ALGO share.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "schedule/postcondition.h"

namespace horing {

// "64", "4K", "1M", "2G", in powers of 1024; nothing for all else.
std::optional<size_t> parseTableBytes(std::string_view word);
// As parseTableBytes() takes it, in the largest unit that gives a whole number.
std::string tableBytesText(size_t bytes);
std::optional<Collective> parseCollective(std::string_view word);

}  // namespace horing
