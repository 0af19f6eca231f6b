#include "comm/split.h"

#include <algorithm>
#include <tuple>

#include "base/fields.h"
#include "control/root_service.h"

namespace horing {

namespace {

using Blobs = std::vector<std::vector<std::byte>>;

// What each rank tells the others.
struct ColorMessage {
  int32_t color = kNoColor;
  int32_t key = 0;
  uint32_t hosted = 0;  // rendezvous in its process
};
void fields(auto& wire, Is<ColorMessage> auto& message) {
  auto& [color, key, hosted] = message;
  wire.numbers(color, key, hosted);
}

// The ranks of one color.
struct Members {
  std::vector<int> ranks;  // in their new order
  int host = -1;           // the first of the ranks that host the fewest rendezvous
};

Result<Members> membersOf(const Blobs& choices, int color) {
  struct Member {
    int key, rank;
    uint32_t hosted;
    bool operator<(const Member& other) const {
      return std::tie(key, rank) < std::tie(other.key, other.rank);
    }
  };
  std::vector<Member> members;
  for (size_t rank = 0; rank < choices.size(); ++rank) {
    ColorMessage told;
    if (!decodeFields(choices[rank], told))
      return makeStatus(Code::kRemoteError, "the message of rank %zu about its color is malformed", rank);
    if (told.color == color) members.push_back({told.key, static_cast<int>(rank), told.hosted});
  }
  std::sort(members.begin(), members.end());
  Members found;
  uint32_t fewest = 0;
  for (const Member& member : members) {
    found.ranks.push_back(member.rank);
    if (found.host >= 0 && member.hosted >= fewest) continue;
    found.host = member.rank;
    fewest = member.hosted;
  }
  return found;
}

}  // namespace

Result<std::optional<CommunicatorOptions>> split(Communicator& parent, const SplitChoice& choice,
                                                 const OpenRendezvous& open) {
  const ColorMessage mine{choice.color, choice.key, static_cast<uint32_t>(RootService::running())};
  HORING_ASSIGN(const Blobs choices, parent.allGather(encodeFields(mine), choice.what));
  Members members;
  if (choice.color != kNoColor) {
    HORING_ASSIGN(members, membersOf(choices, choice.color));
  }
  const int rank = parent.membership().rank();
  const bool hosts = members.host == rank;
  HORING_ASSIGN(const Blobs invitations,
                parent.allGather(
                    hosts ? encodeInvitation(open(parent.membership().options())) : std::vector<std::byte>(),
                    choice.what));
  if (members.host < 0) return std::optional<CommunicatorOptions>();
  HORING_ASSIGN(const UniqueId id,
                decodeInvitation(invitations[static_cast<size_t>(members.host)], members.host));
  const std::vector<int>& ranks = members.ranks;
  const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  HORING_ASSIGN(CommunicatorOptions child,
                childOf(parent, id, static_cast<int>(place), static_cast<int>(ranks.size())));
  child.follows_rates = choice.replaces_parent && parent.isObserved();
  return std::optional(std::move(child));
}

}  // namespace horing
