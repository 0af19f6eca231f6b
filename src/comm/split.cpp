#include "comm/split.h"

#include <algorithm>

#include "control/wire.h"

namespace horing {

namespace {

using Blobs = std::vector<std::vector<std::byte>>;

// The ranks of one color, in their new order.
Result<std::vector<int>> membersOf(const Blobs& choices, int color) {
  std::vector<std::pair<int, int>> members;  // key, rank
  for (size_t rank = 0; rank < choices.size(); ++rank) {
    WireReader reader(choices[rank]);
    const auto its_color = reader.number<int32_t>();
    const auto key = reader.number<int32_t>();
    if (!reader.complete())
      return makeStatus(Code::kRemoteError, "what rank %zu says about its color cannot be read", rank);
    if (its_color == color) members.emplace_back(key, static_cast<int>(rank));
  }
  std::sort(members.begin(), members.end());
  std::vector<int> ranks;
  for (const auto& [key, rank] : members) ranks.push_back(rank);
  return ranks;
}

}  // namespace

Result<std::optional<CommunicatorOptions>> split(Communicator& parent, const SplitChoice& choice,
                                                 const OpenRendezvous& open) {
  WireWriter mine;
  mine.number(static_cast<int32_t>(choice.color));
  mine.number(static_cast<int32_t>(choice.key));
  HORING_ASSIGN(const Blobs choices, parent.allGather(mine.take(), "horingCommSplit"));
  std::vector<int> members;
  if (choice.color != kNoColor) {
    HORING_ASSIGN(members, membersOf(choices, choice.color));
  }
  const bool hosts = !members.empty() && members.front() == parent.membership().rank();
  HORING_ASSIGN(const Blobs invitations,
                parent.allGather(
                    hosts ? encodeInvitation(open(parent.membership().options())) : std::vector<std::byte>(),
                    "horingCommSplit"));
  if (members.empty()) return std::optional<CommunicatorOptions>();
  const int host = members.front();
  HORING_ASSIGN(const UniqueId id, decodeInvitation(invitations[static_cast<size_t>(host)], host));
  const auto place = std::find(members.begin(), members.end(), parent.membership().rank()) - members.begin();
  HORING_ASSIGN(CommunicatorOptions child,
                childOf(parent, id, static_cast<int>(place), static_cast<int>(members.size())));
  return std::optional(std::move(child));
}

}  // namespace horing
