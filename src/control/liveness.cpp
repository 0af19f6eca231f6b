#include "control/liveness.h"

#include <algorithm>

namespace horing {

void Liveness::watch(int member, int64_t interval_ms, int64_t now_ns) {
  const int64_t interval_ns = interval_ms * 1'000'000;
  if (!inside(member)) members_.resize(static_cast<size_t>(member) + 1);
  at(member) = {interval_ns, now_ns};
  next_look_ns_ = std::min(next_look_ns_, now_ns + interval_ns);
}

std::vector<int> Liveness::look(int64_t now_ns) {
  if (now_ns < next_look_ns_) return {};
  int64_t shortest_ns = INT64_MAX;
  for (const Member& member : members_)
    if (member.interval_ns > 0) shortest_ns = std::min(shortest_ns, member.interval_ns);
  if (shortest_ns == INT64_MAX) {
    next_look_ns_ = INT64_MAX;
    return {};
  }
  const bool was_stopped = now_ns - next_look_ns_ > 2 * shortest_ns;
  next_look_ns_ = now_ns + shortest_ns;
  std::vector<int> silent;
  bool too_long = false;
  for (size_t index = 0; index < members_.size(); ++index) {
    Member& member = members_[index];
    if (member.interval_ns == 0) continue;
    if (was_stopped) member.heard_ns = std::max(member.heard_ns, now_ns);
    const int64_t silence_ns = now_ns - member.heard_ns;
    too_long = too_long || silence_ns >= kBeatsMissed * member.interval_ns;
    if (silence_ns >= (kBeatsMissed - 2) * member.interval_ns) silent.push_back(static_cast<int>(index));
  }
  return too_long ? silent : std::vector<int>();
}

}  // namespace horing
