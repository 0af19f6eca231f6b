#include "topology/group_map.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace horing {

namespace {

// Members by rank, groups by their lowest.
std::vector<std::vector<int>> groupsOf(std::span<const std::string> label_of_rank) {
  std::vector<std::vector<int>> groups;
  std::unordered_map<std::string_view, size_t> group_of_label;
  for (size_t rank = 0; rank < label_of_rank.size(); ++rank) {
    const size_t group = group_of_label.try_emplace(label_of_rank[rank], groups.size()).first->second;
    if (group == groups.size()) groups.emplace_back();
    groups[group].push_back(static_cast<int>(rank));
  }
  return groups;
}

// For each switch above a group, from the top, the number of the first group under it; then the group's own number.
using Place = std::vector<size_t>;

void layBySwitches(std::vector<std::vector<int>>& groups, std::span<const std::string> switches) {
  std::unordered_map<std::string_view, size_t> first_under;
  std::vector<std::pair<Place, std::vector<int>>> placed;
  for (size_t group = 0; group < groups.size(); ++group) {
    const std::string_view path = switches[static_cast<size_t>(groups[group][0])];
    Place place;
    for (size_t end = 0; end < path.size(); ++end) {
      end = std::min(path.find('/', end), path.size());
      place.push_back(first_under.try_emplace(path.substr(0, end), group).first->second);
    }
    place.push_back(group);
    placed.emplace_back(std::move(place), std::move(groups[group]));
  }
  std::sort(placed.begin(), placed.end());
  for (size_t group = 0; group < groups.size(); ++group) groups[group] = std::move(placed[group].second);
}

}  // namespace

Result<GroupMap> GroupMap::fromLabels(std::span<const std::string> label_of_rank,
                                      std::span<const int32_t> precedence,
                                      std::span<const std::string> switches) {
  HORING_CHECK(precedence.empty() || precedence.size() == label_of_rank.size());
  HORING_CHECK(switches.empty() || switches.size() == label_of_rank.size());
  if (label_of_rank.empty()) return makeStatus(Code::kInvalidArgument, "a group map needs at least one rank");
  GroupMap map;
  map.members_ = groupsOf(label_of_rank);
  if (!switches.empty()) layBySwitches(map.members_, switches);
  map.group_of_rank_.resize(label_of_rank.size());
  for (int group = 0; group < map.groups(); ++group)
    for (const int rank : map.members(group)) map.group_of_rank_[static_cast<size_t>(rank)] = group;
  map.position_of_rank_.resize(label_of_rank.size());
  map.local_of_rank_.resize(label_of_rank.size());
  map.smallest_group_ = map.ranks();
  for (std::vector<int>& members : map.members_) {
    if (!precedence.empty())
      std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
        return precedence[static_cast<size_t>(a)] < precedence[static_cast<size_t>(b)];
      });
    for (size_t local = 0; local < members.size(); ++local)
      map.local_of_rank_[static_cast<size_t>(members[local])] = static_cast<int>(local);
    map.smallest_group_ = std::min(map.smallest_group_, static_cast<int>(members.size()));
    map.largest_group_ = std::max(map.largest_group_, static_cast<int>(members.size()));
    for (const int rank : members) {
      map.position_of_rank_[static_cast<size_t>(rank)] = static_cast<int>(map.rank_of_position_.size());
      map.rank_of_position_.push_back(rank);
    }
  }
  return map;
}

GroupMap GroupMap::blocks(int groups, int members) {
  HORING_CHECK(groups >= 1 && members >= 1);
  std::vector<std::string> labels;
  labels.reserve(static_cast<size_t>(groups) * static_cast<size_t>(members));
  for (int group = 0; group < groups; ++group) {
    for (int local = 0; local < members; ++local) labels.push_back(std::to_string(group));
  }
  return fromLabels(labels).take();
}

std::vector<int32_t> GroupMap::railMajorBlocks() const {
  std::vector<int32_t> blocks;
  for (int position = 0; uniform() && position < ranks(); ++position) {
    const int rank = rankOfPosition(position);
    blocks.push_back(localIndexOf(rank) * groups() + groupOf(rank));
  }
  return blocks;
}

std::vector<int32_t> GroupMap::sizes() const {
  std::vector<int32_t> sizes;
  for (int group = 0; group < groups(); ++group) sizes.push_back(groupSize(group));
  return sizes;
}

std::string GroupMap::describe() const {
  constexpr int kShownGroups = 8;
  constexpr int kShownMembers = 16;
  std::string text = std::to_string(groups()) + (groups() == 1 ? " group of " : " groups of ");
  text += std::to_string(smallestGroup());
  if (!uniform()) text += " to " + std::to_string(largestGroup());
  text += ":";
  for (int group = 0; group < std::min(groups(), kShownGroups); ++group) {
    text += " {";
    for (int local = 0; local < std::min(groupSize(group), kShownMembers); ++local) {
      if (local > 0) text += " ";
      text += std::to_string(members(group)[static_cast<size_t>(local)]);
    }
    text += groupSize(group) > kShownMembers ? " ...}" : "}";
  }
  if (groups() > kShownGroups) text += " ...";
  return text;
}

}  // namespace horing
