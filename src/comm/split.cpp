#include "comm/split.h"

#include <algorithm>
#include <cstring>

#include "comm/wire.h"
#include "transport/loopback/hub.h"

namespace horing {

namespace {

constexpr size_t kMaxReasonBytes = 1024;

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

// What the host of a rendezvous tells: the ID, or why there is none.
std::vector<std::byte> encodeInvitation(const Result<UniqueId>& opened) {
  WireWriter writer;
  writer.number(static_cast<uint8_t>(opened.ok()));
  if (opened.ok()) {
    writer.raw(opened.value().bytes);
  } else {
    writer.text(opened.status().message(), kMaxReasonBytes);
  }
  return writer.take();
}

Result<UniqueId> decodeInvitation(std::span<const std::byte> bytes, int host) {
  WireReader reader(bytes);
  const bool opened = reader.number<uint8_t>() != 0;
  if (!opened) {
    const std::string why = reader.text(kMaxReasonBytes);
    return makeStatus(Code::kRemoteError, "rank %d could not host the rendezvous of the new communicator: %s",
                      host, why.c_str());
  }
  UniqueId id;
  const auto raw = reader.raw(id.bytes.size());
  if (!reader.complete())
    return makeStatus(Code::kRemoteError, "what rank %d says about the new rendezvous cannot be read", host);
  std::copy(raw.begin(), raw.end(), id.bytes.begin());
  return id;
}

}  // namespace

Result<CommunicatorOptions> branchOf(const Communicator& parent, const UniqueId& id, int rank, int ranks) {
  CommunicatorOptions child = parent.options();
  child.id = id;
  child.rank = rank;
  child.ranks = ranks;
  if (!child.hub) return child;
  HORING_ASSIGN(const UniqueIdParts parts, decodeUniqueId(id));
  LoopbackNonce name;
  static_assert(sizeof name == sizeof parts.job);
  std::memcpy(name.data(), parts.job.data(), name.size());
  HORING_ASSIGN(child.hub, child.hub->branch(name, ranks));
  return child;
}

Result<std::optional<CommunicatorOptions>> split(Communicator& parent, const SplitChoice& choice,
                                                 const OpenRendezvous& open) {
  WireWriter mine;
  mine.number(static_cast<int32_t>(choice.color));
  mine.number(static_cast<int32_t>(choice.key));
  HORING_ASSIGN(const Blobs choices, parent.allGather(mine.take()));
  std::vector<int> members;
  if (choice.color != kNoColor) {
    HORING_ASSIGN(members, membersOf(choices, choice.color));
  }
  const bool hosts = !members.empty() && members.front() == parent.rank();
  HORING_ASSIGN(const Blobs invitations, parent.allGather(hosts ? encodeInvitation(open(parent.options()))
                                                                : std::vector<std::byte>()));
  if (members.empty()) return std::optional<CommunicatorOptions>();
  const int host = members.front();
  HORING_ASSIGN(const UniqueId id, decodeInvitation(invitations[static_cast<size_t>(host)], host));
  const auto place = std::find(members.begin(), members.end(), parent.rank()) - members.begin();
  HORING_ASSIGN(CommunicatorOptions child,
                branchOf(parent, id, static_cast<int>(place), static_cast<int>(members.size())));
  return std::optional(std::move(child));
}

}  // namespace horing
