#pragma once
// How the host of a rendezvous for a new communicator sends its ID to the other ranks, in an all-gather.
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"

namespace horing {

// Opens a rendezvous in this process that the ranks of `parent` can reach, and returns its ID.
using OpenRendezvous = std::function<Result<UniqueId>(const CommunicatorOptions& parent)>;

inline constexpr size_t kMaxInvitationBytes = 2048;

// Encodes the ID, or the error.
std::vector<std::byte> encodeInvitation(const Result<UniqueId>& opened);
// kRemoteError, which names the host: the host could not open a rendezvous, or the bytes are malformed.
Result<UniqueId> decodeInvitation(std::span<const std::byte> bytes, int host);

// Some of the parent's ranks meet (Membership::bootstrap) and all-gather one blob each, whatever state the parent is in. Once they have
// met, `part` returns this rank's blob. The result is indexed by the place among the members. `what`: for messages.
using Part = std::function<std::vector<std::byte>()>;
Result<std::vector<std::vector<std::byte>>> bootstrapAndGather(Communicator& parent,
                                                               std::span<const int> members, const Part& part,
                                                               std::string_view what);

// The options with which a rank creates the child, with the parent's configuration. Ranks that are threads get a branch of the parent's
// hub, and for now have its GPU team.
Result<CommunicatorOptions> childOf(const Communicator& parent, const UniqueId& id, int rank, int ranks);

}  // namespace horing
