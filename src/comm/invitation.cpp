#include "comm/invitation.h"

#include <algorithm>
#include <cstring>

#include "control/wire.h"
#include "transport/loopback/hub.h"

namespace horing {

namespace {

constexpr size_t kMaxReasonBytes = 1024;

}  // namespace

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
  const std::string why = opened ? "" : reader.text(kMaxReasonBytes);
  UniqueId id;
  const auto raw = reader.raw(opened ? id.bytes.size() : 0);
  if (!reader.complete())
    return makeStatus(Code::kRemoteError, "the message of rank %d about the new rendezvous is malformed",
                      host);
  if (!opened)
    return makeStatus(Code::kRemoteError, "rank %d could not host the rendezvous of the new communicator: %s",
                      host, why.c_str());
  std::copy(raw.begin(), raw.end(), id.bytes.begin());
  return id;
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
  child.rates = {};
  child.is_child = true;
  if (!child.hub) return child;
  HORING_ASSIGN(const UniqueIdParts parts, decodeUniqueId(id));
  LoopbackNonce name;
  static_assert(sizeof name == sizeof parts.job);
  std::memcpy(name.data(), parts.job.data(), name.size());
  HORING_ASSIGN(child.hub, child.hub->branch(name, ranks));
  return child;
}

}  // namespace horing
