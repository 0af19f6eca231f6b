#include "comm/invitation.h"

#include <cstring>
#include <optional>
#include <string>

#include "base/fields.h"
#include "transport/loopback/hub.h"

namespace horing {

namespace {

constexpr size_t kMaxReasonBytes = 1024;

struct Invitation {
  std::optional<UniqueId> id;
  std::string why_not;
};
void fields(auto& wire, Is<Invitation> auto& invitation) {
  auto& [id, why_not] = invitation;
  wire.optional(id, [&](auto& given) { wire.raw(given.bytes); });
  wire.text(why_not, kMaxReasonBytes);
}

}  // namespace

std::vector<std::byte> encodeInvitation(const Result<UniqueId>& opened) {
  return encodeFields(opened.ok() ? Invitation{opened.value(), {}}
                                  : Invitation{std::nullopt, opened.status().message()});
}

Result<UniqueId> decodeInvitation(std::span<const std::byte> bytes, int host) {
  Invitation invitation;
  if (!decodeFields(bytes, invitation))
    return makeStatus(Code::kRemoteError, "the message of rank %d about the new rendezvous is malformed",
                      host);
  if (!invitation.id)
    return makeStatus(Code::kRemoteError, "rank %d could not host the rendezvous of the new communicator: %s",
                      host, invitation.why_not.c_str());
  return *invitation.id;
}

Result<std::vector<std::vector<std::byte>>> bootstrapAndGather(Communicator& parent,
                                                               std::span<const int> members, const Part& part,
                                                               std::string_view what) {
  HORING_ASSIGN(const Membership::Bootstrap made, parent.bootstrap(members));
  const std::vector<std::byte> mine = part();
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, parent.membership().config().init_timeout_ms);
  HORING_ASSIGN(auto parts, made.control->allGather(mine, deadline, what));
  made.control->leave();
  return parts;
}

Result<CommunicatorOptions> childOf(const Communicator& parent, const UniqueId& id, int rank, int ranks) {
  CommunicatorOptions child = parent.membership().options();
  child.id = id;
  child.rank = rank;
  child.ranks = ranks;
  child.root_was_open = true;
  child.aborted = nullptr;
  child.failed_rank = nullptr;
  child.machine = parent.choices().machine;
  const std::vector<double> rates = parent.choices().rates;
  const Membership& membership = parent.membership();
  const int group = membership.placement().map().groupOf(membership.rank());
  child.parent_rate = rates.empty() ? std::nullopt : std::optional(rates[static_cast<size_t>(group)]);
  child.is_child = true;
  child.follows_rates = false;
  if (!child.hub) return child;
  HORING_ASSIGN(const UniqueIdParts parts, decodeUniqueId(id));
  LoopbackNonce name;
  static_assert(sizeof name == sizeof parts.job);
  std::memcpy(name.data(), parts.job.data(), name.size());
  HORING_ASSIGN(child.hub, child.hub->branch(name, ranks));
  return child;
}

}  // namespace horing
