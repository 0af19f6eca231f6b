// Making communicators from others.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "capi/device_memory.h"
#include "capi/group.h"
#include "capi/handle.h"
#include "capi/init_rank.h"
#include "capi/rendezvous_list.h"
#include "capi/settings.h"
#include "capi/streams.h"
#include "comm/gpu/team.h"
#include "comm/grow.h"
#include "comm/shrink.h"
#include "comm/split.h"

namespace horing {

namespace {

// Ranks that are threads of one process need no network.
Result<UniqueId> openFor(const CommunicatorOptions& parent, IdleLimit limit) {
  return openRendezvous(parent.config,
                        parent.hub ? RootOptions::Reach::kThisMachine : RootOptions::Reach::kNetwork, limit);
}
Result<UniqueId> openForChild(const CommunicatorOptions& parent) {
  return openFor(parent, IdleLimit::kMinutes);
}
Result<UniqueId> openForResume(const CommunicatorOptions& parent) {
  return openFor(parent, IdleLimit::kEndless);
}

// Makes a child by its options; claims the rendezvous, if this process hosts it, before the ranks meet.
Status makeChild(CommunicatorOptions options, horingComm_t* newcomm) {
  HORING_ASSIGN(std::shared_ptr<RootService> root, claimRendezvous(options.id));
  HORING_ASSIGN(const horingComm_t handle, makeHandle(std::move(options), std::move(root)));
  publishHandle(handle, newcomm);
  return {};
}

// The caller's settings for the child; copied, since a group uses them after the call.
struct ChildSettings {
  std::string name;
  Config config;
  bool blocking;
  int signals;
  std::shared_ptr<const CudaDevice> gpu;  // the parent's GPU, or else the current one

  Status applyTo(CommunicatorOptions& child) const {
    child.name = name;
    child.config = config;
    child.blocking = blocking;
    child.signals = signals;
    child.gpu = gpu;
    if (config.gpu_path != "auto") child.gpus.reset();
    if (!child.gpus) return {};
    HORING_ASSIGN(const UniqueIdParts id, decodeUniqueId(child.id));
    child.gpus = child.gpus->branch(id.job, child.ranks);
    return {};
  }
};

Result<ChildSettings> settingsOf(horingComm_t parent, const horingConfig_t* config) {
  CommunicatorOptions options = parent->communicator->membership().options();
  options.config.timeout_ms = parent->communicator->timeoutMs();
  HORING_TRY(applySettings(config, options));
  return ChildSettings{options.name, options.config, options.blocking, options.signals,
                       openGpu(parent->queue->gpu().value_or(-1))};
}

// Makes a child on a thread, without blocking the caller. `meet`, the exchange among the parent's ranks, is ordered among the parent's
// operations.
Status makeChildLater(horingComm_t parent, std::function<Result<CommunicatorOptions>()> meet,
                      horingComm_t* newcomm) {
  struct Meeting {
    Stream stream;
    Result<CommunicatorOptions> child = Status(Code::kInternalError, "the ranks have not met");
  };
  const auto meeting = std::make_shared<Meeting>();
  Command command(TaskCommand{[meeting, meet = std::move(meet)] {
    meeting->child = meet();
    return meeting->child.status();
  }});
  HORING_TRY(parent->queue->awaitRoom());
  HORING_TRY(parent->queue->submit(std::move(command), std::array{&meeting->stream}));
  const auto find = [meeting]() -> Result<Origin> {
    HORING_TRY(meeting->stream.synchronize());
    HORING_ASSIGN(CommunicatorOptions options, std::move(meeting->child));
    HORING_ASSIGN(std::shared_ptr<RootService> root, claimRendezvous(options.id));
    return Origin{std::move(options), std::move(root)};
  };
  return makeHandleLater(find, newcomm);
}

// As makeChildLater(), but blocking unless the settings say otherwise. `agree`, the exchange among the parent's ranks, returns the child's
// options.
template <typename Agree>
Status makeChildBy(horingComm_t parent, const Agree& agree, horingComm_t* newcomm,
                   const ChildSettings& settings) {
  const auto meet = [agree, settings]() -> Result<CommunicatorOptions> {
    HORING_ASSIGN(CommunicatorOptions child, agree());
    HORING_TRY(settings.applyTo(child));
    return child;
  };
  if (!settings.blocking) return makeChildLater(parent, meet, newcomm);
  parent->queue->drain();
  HORING_ASSIGN(CommunicatorOptions child, meet());
  return makeChild(std::move(child), newcomm);
}

Status splitNow(horingComm_t comm, const SplitChoice& choice, horingComm_t* newcomm,
                const ChildSettings& settings) {
  HORING_TRY(checkHandle(comm));
  const auto meet = [&parent = *comm->communicator, choice,
                     settings]() -> Result<std::optional<CommunicatorOptions>> {
    HORING_ASSIGN(std::optional<CommunicatorOptions> child, split(parent, choice, openForChild));
    if (child) HORING_TRY(settings.applyTo(*child));
    return child;
  };
  // A rank without a child only takes part in the exchange.
  if (!settings.blocking && choice.color != kNoColor)
    return makeChildLater(
        comm,
        [meet]() -> Result<CommunicatorOptions> {
          HORING_ASSIGN(std::optional<CommunicatorOptions> child, meet());
          return std::move(*child);
        },
        newcomm);
  comm->queue->drain();
  HORING_ASSIGN(std::optional<CommunicatorOptions> child, meet());
  if (child) return makeChild(std::move(*child), newcomm);
  *newcomm = nullptr;
  return {};
}

Status checkChild(horingComm_t comm, const horingComm_t* newcomm) {
  HORING_TRY(checkHandle(comm));
  HORING_TRY(checkMayWait());
  if (!newcomm)
    return makeStatus(Code::kInvalidArgument, "newcomm is NULL: expected where to put the communicator");
  return {};
}

Status checkSplit(horingComm_t comm, const SplitChoice& choice, const horingComm_t* newcomm) {
  HORING_TRY(checkChild(comm, newcomm));
  if (choice.color < 0 && choice.color != HORING_SPLIT_NOCOLOR)
    return makeStatus(Code::kInvalidArgument, "color is %d: expected 0 or more, or HORING_SPLIT_NOCOLOR",
                      choice.color);
  return {};
}

Status splitOrKeep(horingComm_t comm, const SplitChoice& choice, horingComm_t* newcomm,
                   const horingConfig_t* config) {
  HORING_TRY(checkSplit(comm, choice, newcomm));
  HORING_ASSIGN(const ChildSettings settings, settingsOf(comm, config));
  if (!groupIsOpen()) return splitNow(comm, choice, newcomm, settings);
  addInitToGroup([=] { return splitNow(comm, choice, newcomm, settings); }, {comm, newcomm});
  return {};
}

// The list in ascending order.
Result<std::vector<int>> excludedRanks(const Communicator& parent, const int* list, int count) {
  const Membership& membership = parent.membership();
  if (!list || count < 1 || count >= membership.ranks())
    return makeStatus(
        Code::kInvalidArgument,
        "excludeRanksList is %p and excludeRanksCount %d: expected 1 to %d ranks to go on without",
        static_cast<const void*>(list), count, membership.ranks() - 1);
  std::vector<int> excluded(list, list + count);
  std::sort(excluded.begin(), excluded.end());
  for (size_t i = 0; i < excluded.size(); ++i) {
    if (excluded[i] < 0 || excluded[i] >= membership.ranks())
      return makeStatus(Code::kInvalidArgument, "excludeRanksList has %d: expected ranks, 0 to %d",
                        excluded[i], membership.ranks() - 1);
    if (i > 0 && excluded[i] == excluded[i - 1])
      return makeStatus(Code::kInvalidArgument, "excludeRanksList has rank %d twice", excluded[i]);
    if (excluded[i] == membership.rank())
      return makeStatus(Code::kInvalidArgument,
                        "excludeRanksList has rank %d, which is this one: only the remaining ranks call",
                        excluded[i]);
  }
  return excluded;
}

Status shrinkNow(horingComm_t comm, const std::vector<int>& excluded, horingComm_t* newcomm,
                 const ChildSettings& settings) {
  HORING_TRY(checkHandle(comm));
  const auto agree = [&parent = *comm->communicator, excluded] {
    return shrink(parent, excluded, openForChild);
  };
  return makeChildBy(comm, agree, newcomm, settings);
}

Status shrinkOrKeep(horingComm_t comm, const std::vector<int>& excluded, horingComm_t* newcomm,
                    const ChildSettings& settings) {
  if (!groupIsOpen()) return shrinkNow(comm, excluded, newcomm, settings);
  addInitToGroup([=] { return shrinkNow(comm, excluded, newcomm, settings); }, {comm, newcomm});
  return {};
}

struct ShrinkRequest {
  const int* list;
  int count;
  const horingConfig_t* config;
  int flags;
};

Status checkAndShrink(horingComm_t comm, horingComm_t* newcomm, const ShrinkRequest& request) {
  HORING_TRY(checkChild(comm, newcomm));
  if (request.flags != HORING_SHRINK_DEFAULT && request.flags != HORING_SHRINK_ABORT)
    return makeStatus(Code::kInvalidArgument,
                      "shrinkFlags is %d: expected HORING_SHRINK_DEFAULT or HORING_SHRINK_ABORT",
                      request.flags);
  HORING_ASSIGN(const std::vector<int> excluded,
                excludedRanks(*comm->communicator, request.list, request.count));
  HORING_ASSIGN(const ChildSettings settings, settingsOf(comm, request.config));
  if (request.flags == HORING_SHRINK_ABORT) {
    comm->communicator->abort();
    comm->queue->abandonTurns();
  }
  return shrinkOrKeep(comm, excluded, newcomm, settings);
}

struct GrowRequest {
  int ranks;
  const horingUniqueId* id;
  int rank;
  const horingConfig_t* config;
};

Status growNow(horingComm_t comm, const Growth& growth, horingComm_t* newcomm,
               const ChildSettings& settings) {
  HORING_TRY(checkHandle(comm));
  const auto agree = [&parent = *comm->communicator, growth] {
    Growth asked = growth;
    asked.is_used_up = asked.id && isUsedUp(*asked.id);
    return grow(parent, asked);
  };
  return makeChildBy(comm, agree, newcomm, settings);
}

Status growOrKeep(horingComm_t comm, horingComm_t* newcomm, const GrowRequest& request) {
  HORING_TRY(checkChild(comm, newcomm));
  const Communicator& parent = *comm->communicator;
  if (request.ranks <= parent.membership().ranks() || request.ranks > kMaxRanks)
    return makeStatus(Code::kInvalidArgument, "nRanks is %d: expected %d to %d, with the ranks that join",
                      request.ranks, parent.membership().ranks() + 1, kMaxRanks);
  if (request.rank != -1 && request.rank != parent.membership().rank())
    return makeStatus(Code::kInvalidArgument, "rank is %d: expected -1, for rank %d of comm keeps its number",
                      request.rank, parent.membership().rank());
  HORING_ASSIGN(const ChildSettings settings, settingsOf(comm, request.config));
  const Growth growth{request.ranks, request.id ? std::optional(idOf(*request.id)) : std::nullopt};
  if (!groupIsOpen()) return growNow(comm, growth, newcomm, settings);
  addInitToGroup([=] { return growNow(comm, growth, newcomm, settings); }, {comm, newcomm});
  return {};
}

Status joinLarger(horingComm_t* newcomm, const GrowRequest& request) {
  if (!request.id)
    return makeStatus(Code::kInvalidArgument,
                      "uniqueId is NULL: expected that of horingCommGetUniqueId, with which ranks join");
  return initRank({newcomm, request.ranks, *request.id, request.rank, request.config});
}

// Ends the communicator, and keeps what a child of all its ranks is made from.
Status suspendNow(horingComm_t comm, const ChildSettings& settings) {
  HORING_TRY(checkHandle(comm));
  comm->queue->drain();
  HORING_ASSIGN(std::optional<CommunicatorOptions> again,
                split(*comm->communicator, {.color = 0, .what = "horingCommSuspend", .replaces_parent = true},
                      openForResume));
  HORING_TRY(settings.applyTo(*again));
  HORING_ASSIGN(std::shared_ptr<RootService> root, claimRendezvous(again->id));
  HORING_TRY(comm->communicator->leave());
  return suspendHandle(comm, {std::move(*again), std::move(root)});
}

Status suspendOrKeep(horingComm_t comm, int flags) {
  HORING_TRY(checkHandle(comm));
  HORING_TRY(checkMayWait());
  if (flags != HORING_SUSPEND_MEM)
    return makeStatus(Code::kInvalidArgument, "flags is %d: expected HORING_SUSPEND_MEM", flags);
  if (comm->registrations > 0)
    return makeStatus(Code::kInvalidUsage,
                      "buffers are registered with comm, or windows: expected horingCommDeregister and "
                      "horingCommWindowDeregister before horingCommSuspend");
  HORING_ASSIGN(const ChildSettings settings, settingsOf(comm, nullptr));
  if (!groupIsOpen()) return suspendNow(comm, settings);
  addInitToGroup([=] { return suspendNow(comm, settings); }, {comm, nullptr});
  return {};
}

Status resumeOrKeep(horingComm_t comm) {
  HORING_TRY(checkAlive(comm));
  HORING_TRY(checkMayWait());
  if (!groupIsOpen()) return resumeHandle(comm);
  addInitToGroup([=] { return resumeHandle(comm); }, {comm, nullptr});
  return {};
}

Status revoke(horingComm_t comm, int flags) {
  HORING_TRY(checkHandle(comm));
  HORING_TRY(checkMayWait());
  if (flags != HORING_REVOKE_DEFAULT)
    return makeStatus(Code::kInvalidArgument, "revokeFlags is %d: expected HORING_REVOKE_DEFAULT", flags);
  if (comm->communicator->membership().aborted().exchange(true))
    return makeStatus(Code::kInvalidArgument, "comm was revoked before, or ended by HORING_SHRINK_ABORT");
  comm->communicator->abort();
  comm->queue->abandonTurns();
  // Announces it to the other ranks.
  [[maybe_unused]] const Status told = comm->communicator->asyncError();
  return {};
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingCommGetUniqueId(horingComm_t comm, horingUniqueId* uniqueId) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    return makeUniqueId(comm->communicator->membership().config(), uniqueId);
  });
}

horingResult_t horingCommGrow(horingComm_t comm, int nRanks, const horingUniqueId* uniqueId, int rank,
                              horingComm_t* newcomm, horingConfig_t* config) {
  using namespace horing;
  const GrowRequest request{nRanks, uniqueId, rank, config};
  return guardedLaunch(
      comm, [&] { return comm ? growOrKeep(comm, newcomm, request) : joinLarger(newcomm, request); });
}

horingResult_t horingCommSuspend(horingComm_t comm, int flags) {
  return horing::guardedLaunch(comm, [&] { return horing::suspendOrKeep(comm, flags); });
}

horingResult_t horingCommResume(horingComm_t comm) {
  return horing::guardedLaunch(comm, [&] { return horing::resumeOrKeep(comm); });
}

horingResult_t horingCommRevoke(horingComm_t comm, int revokeFlags) {
  return horing::guarded(comm, [&] { return horing::revoke(comm, revokeFlags); });
}

horingResult_t horingCommSplit(horingComm_t comm, int color, int key, horingComm_t* newcomm,
                               horingConfig_t* config) {
  using namespace horing;
  static_assert(HORING_SPLIT_NOCOLOR == kNoColor);
  return guardedLaunch(comm, [&] { return splitOrKeep(comm, {color, key}, newcomm, config); });
}

horingResult_t horingCommShrink(horingComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                horingComm_t* newcomm, horingConfig_t* config, int shrinkFlags) {
  using namespace horing;
  return guardedLaunch(comm, [&] {
    return checkAndShrink(comm, newcomm, {excludeRanksList, excludeRanksCount, config, shrinkFlags});
  });
}

}  // extern "C"
