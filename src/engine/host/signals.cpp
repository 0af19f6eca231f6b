#include "engine/host/signals.h"

#include <algorithm>
#include <cinttypes>

#include "base/status.h"

namespace horing {

bool Signals::awaits(int from) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [from](const Transfer& wait) { return wait.peer == from; });
}

std::optional<Transfer> Signals::takeServed(int from) {
  const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                 [from](const Transfer& wait) { return wait.peer == from; });
  if (next == waiting_.end()) return std::nullopt;
  uint64_t& here = here_[static_cast<size_t>(from)];
  const Transfer wait = *next;
  if (here < wait.signals) return std::nullopt;
  here -= wait.signals;
  waiting_.erase(next);
  return wait;
}

std::vector<int32_t> Signals::waitsFor() const {
  std::vector<int32_t> ranks;
  for (const Transfer& wait : waiting_)
    if (std::find(ranks.begin(), ranks.end(), wait.peer) == ranks.end()) ranks.push_back(wait.peer);
  return ranks;
}

std::string Signals::describe() const {
  constexpr size_t kMostDescribed = 8;
  std::string text;
  const std::vector<int32_t> ranks = waitsFor();
  for (size_t i = 0; i < std::min(ranks.size(), kMostDescribed); ++i) {
    uint64_t awaited = 0;
    for (const Transfer& wait : waiting_)
      if (wait.peer == ranks[i]) awaited += wait.signals;
    text += formatString("%s%" PRIu64 " of %" PRIu64 " signals from rank %d", text.empty() ? "" : "; ",
                         here_[static_cast<size_t>(ranks[i])], awaited, static_cast<int>(ranks[i]));
  }
  if (ranks.size() > kMostDescribed)
    text += formatString(" and of %zu more ranks", ranks.size() - kMostDescribed);
  return text;
}

}  // namespace horing
