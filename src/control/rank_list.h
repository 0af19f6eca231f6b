#pragma once
// Ranks in messages: "3, 7", "0-2, 5", shortened when there are many.
#include <span>
#include <string>

namespace horing {

// `ranks` is ascending. Runs of three or more become ranges; after 16 entries only the number of the rest is given.
std::string rankList(std::span<const int> ranks);

}  // namespace horing
