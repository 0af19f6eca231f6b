#include "paro/blocks.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "base/quotient.h"

namespace horing::paro {

namespace {
constexpr size_t kShardAlignment = 16;  // bytes
}

Range overlapOf(const Range& one, const Range& other) {
  const size_t first = std::max(one.first, other.first), end = std::min(one.end(), other.end());
  return {first, end > first ? end - first : 0};
}

Shares Shares::even(int groups, int members) {
  const double group = 1.0 / groups;
  return {groups, members, members, static_cast<double>(groups) * members, group, group};
}

Blocks::Blocks(std::vector<Place> places, bool nested) : places_(std::move(places)), nested_(nested) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto [group, local] = place(rank);
    members_.resize(std::max(members_.size(), static_cast<size_t>(group) + 1));
    auto& members = members_[static_cast<size_t>(group)];
    members.resize(std::max(members.size(), static_cast<size_t>(local) + 1));
    members[static_cast<size_t>(local)] = rank;
  }
  if (places_.empty()) return;
  const auto size = [](const std::vector<int>& members) { return members.size(); };
  const auto [fewest, most] = std::ranges::minmax(members_, {}, size);
  even_ = fewest.size() == most.size();
  fewest_members_ = static_cast<int>(fewest.size());
  const auto n = static_cast<uint64_t>(ranks());
  if (nested_ || even_)
    nest();
  else
    for (uint64_t rank = 0; rank < n; ++rank) all_.push_back({{rank, n}, {rank + 1, n}});
  if (!even_) group_shares_ = groupShares();
}

Blocks::Part Blocks::partOf(const Place& place) const {
  const auto m = static_cast<uint64_t>(members(place.group).size());
  const auto j = static_cast<uint64_t>(place.local);
  return {{j, m}, {j + 1, m}};
}

// An n-th later. Its denominator is n times that of a part inside a group, at most.
Blocks::Fraction Blocks::after(const Fraction& at) const {
  const auto n = static_cast<uint64_t>(ranks());
  if (at.denominator % n == 0) return {at.numerator + at.denominator / n, at.denominator};
  return {at.numerator * n + at.denominator, at.denominator * n};
}

void Blocks::nest() {
  std::vector<int> order;  // by the begin of the ranks' parts inside their groups
  for (const std::vector<int>& members : members_) order.insert(order.end(), members.begin(), members.end());
  const auto part = [&](int rank) { return partOf(place(rank)); };
  std::ranges::stable_sort(order, [&](int one, int other) { return part(one).begin < part(other).begin; });
  const auto ends_later = [&](int one, int other) {
    const Fraction mine = part(one).end, theirs = part(other).end;
    return theirs < mine || (theirs <= mine && place(other).group < place(one).group);
  };
  std::priority_queue<int, std::vector<int>, decltype(ends_later)> begun(ends_later);
  all_.resize(places_.size());
  Fraction at;
  int last = 0;  // whose block ends at `at`
  auto next = order.begin();
  while (next != order.end() || !begun.empty()) {
    while (next != order.end() && part(*next).begin <= at) begun.push(*next++);
    if (begun.empty()) {
      all_[static_cast<size_t>(last)].end = at = part(*next).begin;
      continue;
    }
    const int rank = begun.top();
    begun.pop();
    const Fraction end = part(rank).end;
    Part& mine = all_[static_cast<size_t>(rank)];
    if (end <= at) {  // the others have all of it
      mine = {end, end};
      continue;
    }
    mine = {at, std::min(after(at), end)};
    at = mine.end;
    last = rank;
  }
  all_[static_cast<size_t>(last)].end = {1, 1};
}

Padded Blocks::padded(size_t count, size_t element_bytes) const {
  const size_t unit = std::max<size_t>(1, kShardAlignment / element_bytes);
  const size_t step = unit * places_.size();
  return {quotientUp(count, step) * step, unit};
}

Range Blocks::of(horingParoPartition_t partition, int rank, const Padded& vector) const {
  if (partition == horingParoWhole) return {0, vector.count};
  const Part part = partition == horingParoByGroup ? partOf(place(rank)) : all_[static_cast<size_t>(rank)];
  const auto at = [&](const Fraction& where) {
    return alignedShare(vector.count, where.numerator, where.denominator, vector.unit);
  };
  return {at(part.begin), at(part.end) - at(part.begin)};
}

std::vector<double> Blocks::groupShares() const {
  std::vector<double> shares(members_.size());
  for (size_t rank = 0; rank < all_.size(); ++rank)
    shares[static_cast<size_t>(places_[rank].group)] += all_[rank].end.value() - all_[rank].begin.value();
  return shares;
}

Shares Blocks::shares(int rank) const {
  if (even_) return Shares::even(groups(), fewest_members_);
  const auto group = static_cast<size_t>(place(rank).group);
  const Part& part = all_[static_cast<size_t>(rank)];
  const double share = part.end.value() - part.begin.value();
  return {.groups = groups(),
          .members = static_cast<int>(members_[group].size()),
          .fewest_members = fewest_members_,
          .all = nested_ ? 1 / share : ranks(),
          .group = group_shares_[group],
          .next_group = group_shares_[(group + 1) % group_shares_.size()]};
}

}  // namespace horing::paro
