#include "comm/shrink.h"

#include <algorithm>

#include "base/fields.h"
#include "control/rank_list.h"

namespace horing {

namespace {

constexpr size_t kMaxSetBytes = kMaxRanks / 8;

using Blobs = std::vector<std::vector<std::byte>>;

// What each rank tells the others.
struct MembersMessage {
  std::vector<std::byte> set;         // toSet() of the ranks that stay
  std::vector<std::byte> invitation;  // encodeInvitation() of the host; others send none
};
void fields(auto& wire, Is<MembersMessage> auto& message) {
  auto& [set, invitation] = message;
  wire.blob(set, kMaxSetBytes);
  wire.blob(invitation, kMaxInvitationBytes);
}

std::vector<int> without(int ranks, const std::vector<int>& excluded) {
  std::vector<int> rest;
  for (int rank = 0; rank < ranks; ++rank)
    if (!std::binary_search(excluded.begin(), excluded.end(), rank)) rest.push_back(rank);
  return rest;
}

// A bit for each rank of the parent.
std::vector<std::byte> toSet(int ranks, const std::vector<int>& members) {
  std::vector<std::byte> set(static_cast<size_t>(ranks + 7) / 8);
  for (const int rank : members) set[static_cast<size_t>(rank) / 8] |= std::byte{1} << (rank % 8);
  return set;
}

// Checks that all exclude the same ranks. Returns the ID of the new rendezvous from the host.
Result<UniqueId> readParts(const Blobs& parts, const std::vector<std::byte>& own_set,
                           const std::vector<int>& members) {
  Result<UniqueId> id = Status(Code::kInternalError, "nobody hosts");
  for (size_t member = 0; member < parts.size(); ++member) {
    MembersMessage told;
    if (!decodeFields(parts[member], told))
      return makeStatus(Code::kRemoteError, "the message of rank %d about the excluded ranks is malformed",
                        members[member]);
    if (told.set != own_set)
      return makeStatus(Code::kInvalidUsage, "rank %d excludes other ranks: pass the same list on every rank",
                        members[member]);
    if (member == 0) id = decodeInvitation(told.invitation, members[0]);
  }
  return id;
}

Result<UniqueId> agree(Communicator& parent, const std::vector<int>& members, const OpenRendezvous& open) {
  const Membership& membership = parent.membership();
  const std::vector<std::byte> set = toSet(membership.ranks(), members);
  const auto part = [&] {
    MembersMessage mine{.set = set, .invitation = {}};
    if (membership.rank() == members.front()) mine.invitation = encodeInvitation(open(membership.options()));
    return encodeFields(mine);
  };
  HORING_ASSIGN(const Blobs parts, bootstrapAndGather(parent, members, part, "horingCommShrink"));
  return readParts(parts, set, members);
}

}  // namespace

Result<CommunicatorOptions> shrink(Communicator& parent, const std::vector<int>& excluded,
                                   const OpenRendezvous& open) {
  const Membership& membership = parent.membership();
  const std::vector<int> members = without(membership.ranks(), excluded);
  const Result<UniqueId> id = agree(parent, members, open);
  if (!id.ok())
    return makeStatus(
        id.status().code(),
        "rank %d of %d could not shrink the communicator to ranks %s (ranks 0 to %zu of the new "
        "one, whose rank 0 hosts it): %s",
        membership.rank(), membership.ranks(), rankList(members).c_str(), members.size() - 1,
        id.status().message().c_str());
  const auto place = std::lower_bound(members.begin(), members.end(), membership.rank()) - members.begin();
  HORING_ASSIGN(CommunicatorOptions child,
                childOf(parent, id.value(), static_cast<int>(place), static_cast<int>(members.size())));
  child.follows_rates = parent.isObserved();
  return child;
}

}  // namespace horing
