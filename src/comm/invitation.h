#pragma once
// How the host of a rendezvous for a new communicator tells the others of it, in an all-gather.
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"

namespace horing {

// Begins a rendezvous in this process that the ranks of this parent can reach, and returns its ID.
using OpenRendezvous = std::function<Result<UniqueId>(const CommunicatorOptions& parent)>;

inline constexpr size_t kMaxInvitationBytes = 2048;

// The ID, or why there is none.
std::vector<std::byte> encodeInvitation(const Result<UniqueId>& opened);
// kRemoteError, naming the host, where there is none or the bytes are not what they should be.
Result<UniqueId> decodeInvitation(std::span<const std::byte> bytes, int host);

// Some of the parent's ranks meet (Membership::meet) and tell each other one thing, whatever has become of the parent. `part` is asked
// for it once they have met. Returns what each said, by its place among the members. `what`: for messages.
using Part = std::function<std::vector<std::byte>()>;
Result<std::vector<std::vector<std::byte>>> gatherAtMeeting(Communicator& parent,
                                                            std::span<const int> members, const Part& part,
                                                            std::string_view what);

// What a rank creates its end from, with the configuration of the parent. Ranks that are threads stay on one hub; their team of GPUs
// is still the parent's.
Result<CommunicatorOptions> childOf(const Communicator& parent, const UniqueId& id, int rank, int ranks);

}  // namespace horing
