#include "control/pace_judge.h"

#include <algorithm>
#include <utility>

namespace horing {

namespace {

// A rank comes late if the others wait for it for this part of their calls, and of the time.
constexpr double kLateOfCall = 0.2;
constexpr double kLateOfTime = 0.05;
// A path is slow if both ends wait for each other for this part of the time, and this many times as long as those of most paths.
constexpr double kSlowOfTime = 0.25;
constexpr double kSlowBesideOthers = 2;

struct Path {
  int32_t from, to;
  double share;  // of the time, in which both ends wait
};

// Adds the paths whose share is large, and larger than that of most paths.
void addOutliers(std::vector<Path> paths, std::vector<PaceFinding>& found) {
  if (paths.empty()) return;
  std::ranges::sort(paths, std::greater(), &Path::share);
  // Paths on which nobody waits are not in the list. A single path has none to be compared with except its way back, whose share is 0.
  const double usual = paths.size() == 1 ? 0 : paths[paths.size() / 2].share;
  for (const Path& path : paths)
    if (path.share >= kSlowOfTime && path.share >= kSlowBesideOthers * usual)
      found.push_back({.rank = path.from, .to = path.to, .share = path.share});
}

}  // namespace

void PaceJudge::tell(int rank, const Ranks& ranks, const Pace& pace, int64_t now_ns) {
  sums_.resize(static_cast<size_t>(ranks.ranks));
  if (begun_ns_ == 0) begun_ns_ = now_ns;
  Sum& sum = sums_[static_cast<size_t>(rank)];
  sum.interval_us += pace.interval_us;
  with_calls_ += sum.calls < kFewestCalls && sum.calls + pace.calls >= kFewestCalls ? 1 : 0;
  sum.calls += pace.calls;
  sum.inside_us += pace.inside_us;
  for (const PaceWait& each : pace.waits)
    if (each.wait.peer >= 0 && each.wait.peer < ranks.ranks)
      sum.waits_us[{each.wait.peer, each.wait.for_room}] += each.us;
  const int64_t lasted_ns = now_ns - begun_ns_;
  const bool has_calls = with_calls_ == sums_.size();
  if (lasted_ns < (has_calls ? kWindowNs : kLongestWindowNs)) return;
  judge(ranks);
  sums_.assign(sums_.size(), {});
  with_calls_ = 0;
  begun_ns_ = now_ns;
}

void PaceJudge::judge(const Ranks& ranks) {
  std::vector<PaceFinding> found = lateRanks();
  const std::vector<PaceFinding> slow = slowPaths(ranks);
  found.insert(found.end(), slow.begin(), slow.end());
  std::ranges::stable_sort(found, std::greater(), &PaceFinding::share);
  if (found.size() > kMostFindings) found.resize(kMostFindings);
  remember(std::move(found));
}

// Compares with the median; for an even number of ranks with the upper median, since of two ranks one may be late.
std::vector<PaceFinding> PaceJudge::lateRanks() const {
  std::vector<double> per_call_us;
  for (const Sum& sum : sums_) {
    if (sum.calls < kFewestCalls) return {};
    per_call_us.push_back(sum.perCallUs());
  }
  const auto middle = per_call_us.begin() + std::ssize(per_call_us) / 2;
  std::nth_element(per_call_us.begin(), middle, per_call_us.end());
  std::vector<PaceFinding> found;
  for (size_t rank = 0; rank < sums_.size(); ++rank) {
    const Sum& sum = sums_[rank];
    const double late_us = *middle - sum.perCallUs();
    const double share = late_us * static_cast<double>(sum.calls) / static_cast<double>(sum.interval_us);
    if (late_us >= kLateOfCall * *middle && share >= kLateOfTime)
      found.push_back(
          {.rank = static_cast<int32_t>(rank), .share = share, .per_call_us = static_cast<int64_t>(late_us)});
  }
  return found;
}

double PaceJudge::shareOf(int32_t rank, int32_t peer, bool for_room) const {
  const Sum& sum = sums_[static_cast<size_t>(rank)];
  const auto wait = sum.waits_us.find({peer, for_room});
  return wait == sum.waits_us.end() || sum.interval_us == 0
             ? 0
             : static_cast<double>(wait->second) / static_cast<double>(sum.interval_us);
}

// Paths inside nodes are compared with each other, and so are those between nodes.
std::vector<PaceFinding> PaceJudge::slowPaths(const Ranks& ranks) const {
  std::vector<Path> inside, between;
  for (int32_t to = 0; to < ranks.ranks; ++to)
    for (const auto& [wait, us] : sums_[static_cast<size_t>(to)].waits_us) {
      const auto [from, for_room] = wait;
      if (for_room) continue;
      const double share = std::min(shareOf(to, from, false), shareOf(from, to, true));
      (ranks.share_node(from, to) ? inside : between).push_back({from, to, share});
    }
  std::vector<PaceFinding> found;
  addOutliers(std::move(inside), found);
  addOutliers(std::move(between), found);
  return found;
}

void PaceJudge::remember(std::vector<PaceFinding> found) {
  std::vector<Known> now;
  for (const PaceFinding& each : found) {
    const auto before =
        std::ranges::find_if(known_, [&](const Known& known) { return known.finding.isSame(each); });
    now.push_back({each, before == known_.end() ? 1 : before->windows + 1});
    if (now.back().windows == kLasting) begun_.push_back(each);
  }
  for (const Known& known : known_)
    if (known.windows >= kLasting &&
        std::ranges::none_of(found, [&](const PaceFinding& each) { return known.finding.isSame(each); }))
      ended_.push_back(known.finding);
  known_ = std::move(now);
}

std::vector<PaceFinding> PaceJudge::lasting() const {
  std::vector<PaceFinding> found;
  for (const Known& known : known_)
    if (known.windows >= kLasting) found.push_back(known.finding);
  return found;
}

}  // namespace horing
