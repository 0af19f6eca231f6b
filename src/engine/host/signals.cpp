#include "engine/host/signals.h"

#include <algorithm>
#include <cinttypes>

#include "base/status.h"

namespace horing {

std::optional<Transfer> Signals::takeServed(int from, uint32_t index) {
  auto& [here, waiting] = ofRank(from)[index];
  if (waiting.empty() || here < waitOf(waiting.front()).signals) return std::nullopt;
  const Transfer wait = waiting.front();
  here -= waitOf(wait).signals;
  waiting.pop_front();
  return wait;
}

bool Signals::awaits(int from) const {
  return std::ranges::any_of(of_rank_[static_cast<size_t>(from)],
                             [](const auto& entry) { return !entry.second.waiting.empty(); });
}

std::vector<int32_t> Signals::waitsFor() const {
  std::vector<int32_t> ranks;
  for (int rank = 0; rank < static_cast<int>(of_rank_.size()); ++rank)
    if (awaits(rank)) ranks.push_back(rank);
  return ranks;
}

std::string Signals::describe() const {
  constexpr size_t kMostDescribed = 8;
  std::string text;
  const std::vector<int32_t> ranks = waitsFor();
  for (size_t i = 0; i < std::min(ranks.size(), kMostDescribed); ++i) {
    for (const auto& [index, counted] : of_rank_[static_cast<size_t>(ranks[i])]) {
      uint64_t awaited = 0;
      for (const Transfer& wait : counted.waiting) awaited += waitOf(wait).signals;
      if (awaited == 0) continue;
      text += formatString("%s%" PRIu64 " of %" PRIu64 " signals from rank %d", text.empty() ? "" : "; ",
                           counted.here, awaited, static_cast<int>(ranks[i]));
      if (index > 0) text += formatString(" with index %" PRIu32, index);
    }
  }
  if (ranks.size() > kMostDescribed)
    text += formatString(" and of %zu more ranks", ranks.size() - kMostDescribed);
  return text;
}

}  // namespace horing
