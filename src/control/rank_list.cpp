#include "control/rank_list.h"

namespace horing {

std::string rankList(std::span<const int> ranks) {
  constexpr int kShownEntries = 16;
  std::string text;
  size_t at = 0;
  for (int entries = 0; at < ranks.size(); ++entries) {
    if (entries == kShownEntries) return text + " and " + std::to_string(ranks.size() - at) + " more";
    size_t end = at + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - at == 2) end = at + 1;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[at]);
    if (end - at > 1) text += "-" + std::to_string(ranks[end - 1]);
    at = end;
  }
  return text;
}

}  // namespace horing
