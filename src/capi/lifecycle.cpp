// Making, querying and ending communicators.
#include <cstring>
#include <span>
#include <vector>

#include "capi/device_memory.h"
#include "capi/group.h"
#include "capi/handle.h"
#include "capi/init_rank.h"
#include "capi/on_threads.h"
#include "capi/rendezvous_list.h"
#include "capi/settings.h"
#include "capi/streams.h"
#include "comm/description.h"
#include "comm/gpu/team.h"
#include "launch/launcher.h"
#include "transport/loopback/hub.h"

namespace horing {

namespace {

// The options for a communicator of this thread. Warns of unknown HORING_ variables.
Result<CommunicatorOptions> readEnvironment() {
  CommunicatorOptions options;
  HORING_ASSIGN(options.config, Config::fromEnvironment());
  const Log log = options.config.log();
  for (const std::string& sentence : unknownVariables()) log.warn("config", "%s", sentence.c_str());
  HORING_TRY(checkForced(options.config));  // before ranks meet: otherwise peers would wait for this rank
  HORING_TRY(applyThreadOptions(options));
  return options;
}

// Claims the rendezvous before the ranks meet, so that it is kept until the last rank of this process ends.
Result<Origin> originOf(CommunicatorOptions options) {
  HORING_ASSIGN(std::shared_ptr<RootService> root, claimRendezvous(options.id));
  return Origin{std::move(options), std::move(root)};
}

// Joins by ID. `options` has the configuration and the caller's choices.
Status initRankNow(horingComm_t* comm, CommunicatorOptions options) {
  HORING_ASSIGN(Origin origin, originOf(std::move(options)));
  if (!origin.options.blocking) return makeHandleLater([origin = std::move(origin)] { return origin; }, comm);
  HORING_ASSIGN(const horingComm_t handle, makeHandle(std::move(origin.options), std::move(origin.root)));
  publishHandle(handle, comm);
  return {};
}

Status checkPlace(const horingComm_t* comm, int ranks, int rank) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument, "comm is NULL: expected where to put the communicator");
  if (ranks < 1 || ranks > kMaxRanks)
    return makeStatus(Code::kInvalidArgument, "nranks is %d: expected 1 to %d", ranks, kMaxRanks);
  if (rank < 0 || rank >= ranks)
    return makeStatus(Code::kInvalidArgument, "rank is %d: expected 0 to %d", rank, ranks - 1);
  return {};
}

// Records the GPU current on the calling thread, since another thread may make the communicator.
void noteCurrentGpu(CommunicatorOptions& options) {
  options.gpu_bus = gpuBus();
  options.gpu = openGpu();
}

}  // namespace

UniqueId idOf(const horingUniqueId& given) {
  UniqueId id;
  std::memcpy(id.bytes.data(), given.internal, HORING_UNIQUE_ID_BYTES);
  return id;
}

Status makeUniqueId(const Config& config, horingUniqueId* made) {
  if (!made) return makeStatus(Code::kInvalidArgument, "uniqueId is NULL: expected where to put it");
  HORING_ASSIGN(const UniqueId id, openRendezvous(config, RootOptions::Reach::kNetwork, IdleLimit::kEndless));
  std::memcpy(made->internal, id.bytes.data(), HORING_UNIQUE_ID_BYTES);
  return {};
}

Status initRank(const InitRank& init) {
  HORING_TRY(checkPlace(init.comm, init.ranks, init.rank));
  HORING_ASSIGN(CommunicatorOptions options, readEnvironment());
  HORING_TRY(applySettings(init.config, options));
  HORING_TRY(applySettings(init.options, options));
  options.id = idOf(init.id);
  options.root_was_open = true;
  options.rank = init.rank;
  options.ranks = init.ranks;
  noteCurrentGpu(options);
  if (!groupIsOpen()) return initRankNow(init.comm, std::move(options));
  const auto reserved = std::make_shared<ReservedHandle>(init.comm);
  const auto make = [reserved, options = std::move(options)] {
    return reserved->make(originOf(options), options.blocking);
  };
  addInitToGroup(make, {nullptr, init.comm});
  return {};
}

namespace {

// All ranks meet at the first rendezvous. The others are not needed, and each is closed by the process that opened it.
Status initRankScalable(const InitRank& init, int ids, const horingUniqueId* given) {
  if (ids < 1 || ids > init.ranks)
    return makeStatus(Code::kInvalidArgument, "nId is %d: expected 1 to nranks, which is %d", ids,
                      init.ranks);
  if (!given) return makeStatus(Code::kInvalidArgument, "commIds is NULL: expected nId unique IDs");
  for (int i = 0; i < ids; ++i)
    if (const auto parts = decodeUniqueId(idOf(given[i])); !parts.ok())
      return makeStatus(Code::kInvalidArgument, "commIds[%d]: %s", i, parts.status().message().c_str());
  InitRank at_first = init;
  at_first.id = given[0];
  Status status = initRank(at_first);
  // Nothing was tried: the IDs remain valid.
  if (status.code() == Code::kInvalidArgument) return status;
  for (int i = 1; i < ids; ++i)
    if (idOf(given[i]) != idOf(given[0])) [[maybe_unused]]
      const auto not_needed = claimRendezvous(idOf(given[i]));
  return status;
}

Status initFromEnv(horingComm_t* comm) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument, "comm is NULL: expected where to put the communicator");
  HORING_ASSIGN(CommunicatorOptions options, readEnvironment());
  HORING_ASSIGN(Launched launched, launchedRank(options.config, options.config.log()));
  options.id = launched.id;
  options.rank = launched.rank;
  options.ranks = launched.ranks;
  noteCurrentGpu(options);
  HORING_ASSIGN(const horingComm_t handle, makeHandle(std::move(options), std::move(launched.root)));
  publishHandle(handle, comm);
  return {};
}

using OpenGpus = std::vector<std::shared_ptr<const CudaDevice>>;
// Empty: not all GPUs are available.
OpenGpus openGpus(std::span<const int> devices) {
  OpenGpus gpus;
  for (const int device : devices) {
    auto gpu = openGpu(device);
    if (!gpu) return {};
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Status initAll(horingComm_t* comms, int ranks, const int* devices) {
  if (!comms)
    return makeStatus(Code::kInvalidArgument, "comms is NULL: expected room for ndev communicators");
  if (ranks < 1 || ranks > kMaxLoopbackRanks)
    return makeStatus(Code::kInvalidArgument, "ndev is %d: expected 1 to %d", ranks, kMaxLoopbackRanks);
  for (int rank = 0; devices && rank < ranks; ++rank)
    if (devices[rank] < 0)
      return makeStatus(Code::kInvalidArgument, "devlist[%d] is %d: expected the number of a GPU", rank,
                        devices[rank]);
  HORING_ASSIGN(CommunicatorOptions options, readEnvironment());
  const auto gpus = devices ? openGpus({devices, static_cast<size_t>(ranks)}) : OpenGpus();
  HORING_ASSIGN(options.id,
                openRendezvous(options.config, RootOptions::Reach::kThisMachine, IdleLimit::kMinutes));
  HORING_ASSIGN(options.hub, LoopbackHub::create(ranks));
  if (options.config.gpu_path == "auto") options.gpus = std::make_shared<GpuTeam>(ranks);
  options.ranks = ranks;
  HORING_ASSIGN(const std::shared_ptr<RootService> root, claimRendezvous(options.id));
  std::vector<Result<horingComm_t>> made(static_cast<size_t>(ranks),
                                         Status(Code::kSystemError, "no memory for a communicator"));
  HORING_TRY(onThreads(ranks, [&](int rank) {
    CommunicatorOptions own = options;
    own.rank = rank;
    if (devices) own.gpu_bus = gpuBus(devices[rank]);
    if (!gpus.empty()) own.gpu = gpus[static_cast<size_t>(rank)];
    made[static_cast<size_t>(rank)] = makeHandle(std::move(own), root);
  }));
  Status first;
  for (const auto& one : made)
    if (first.ok() && !one.ok()) first = one.status();
  for (size_t rank = 0; rank < made.size(); ++rank) {
    if (first.ok()) {
      if (devices) made[rank].value()->listed_gpu = devices[rank];
      publishHandle(made[rank].value(), &comms[rank]);
    } else if (made[rank].ok()) {
      giveBackHandle(made[rank].value());
    }
  }
  return first;
}

// If several threads end a communicator, one of them recycles the handle.
Status claimEnd(horingComm_t comm) {
  if (comm->alive.exchange(false)) return {};
  return makeStatus(Code::kInvalidUsage, "comm is being ended by another thread");
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingGetVersion(int* version) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    if (!version) return makeStatus(Code::kInvalidArgument, "version is NULL: expected where to put it");
    *version = HORING_VERSION_CODE;
    return {};
  });
}

horingResult_t horingSetDefault(const char* name, const char* value) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    if (!name) return makeStatus(Code::kInvalidArgument, "name is NULL: expected that of a variable");
    return setDefault(name, value);
  });
}

horingResult_t horingGetUniqueId(horingUniqueId* uniqueId) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(const Config config, Config::fromEnvironment());
    return makeUniqueId(config, uniqueId);
  });
}

horingResult_t horingCommInitRank(horingComm_t* comm, int nranks, horingUniqueId commId, int rank) {
  return horing::guardedLaunch(nullptr, [&] {
    return horing::initRank({comm, nranks, commId, rank, nullptr});
  });
}

horingResult_t horingCommInitRankConfig(horingComm_t* comm, int nranks, horingUniqueId commId, int rank,
                                        horingConfig_t* config) {
  return horing::guardedLaunch(nullptr, [&] {
    return horing::initRank({comm, nranks, commId, rank, config});
  });
}

horingResult_t horingCommInitRankOptions(horingComm_t* comm, int nranks, horingUniqueId commId, int rank,
                                         horingConfig_t* config, const horingOptions_t* options) {
  return horing::guardedLaunch(nullptr, [&] {
    return horing::initRank({comm, nranks, commId, rank, config, options});
  });
}

horingResult_t horingSetThreadOptions(const horingOptions_t* options, horingOptions_t* former) {
  return horing::guarded(nullptr, [&] { return horing::setThreadOptions(options, former); });
}

horingResult_t horingCommInitRankScalable(horingComm_t* newcomm, int nranks, int myrank, int nId,
                                          horingUniqueId* commIds, horingConfig_t* config) {
  return horing::guardedLaunch(nullptr, [&] {
    return horing::initRankScalable({newcomm, nranks, {}, myrank, config}, nId, commIds);
  });
}

horingResult_t horingCommInitAll(horingComm_t* comms, int ndev, const int* devlist) {
  return horing::guarded(nullptr, [&] { return horing::initAll(comms, ndev, devlist); });
}

horingResult_t horingCommInitFromEnv(horingComm_t* comm) {
  return horing::guarded(nullptr, [&] { return horing::initFromEnv(comm); });
}

horingResult_t horingCommFinalize(horingComm_t comm) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    if (!comm) return {};
    HORING_TRY(checkHandle(comm));
    HORING_TRY(checkMayWait());
    comm->queue->drain();
    return comm->communicator->finalize();
  });
}

horingResult_t horingCommDestroy(horingComm_t comm) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    if (!comm) return {};
    HORING_TRY(checkAlive(comm));
    HORING_TRY(checkMayWait());
    const horingComm::Making making = comm->making;
    if (making == horingComm::Making::kFailed || hasLeft(making)) {
      HORING_TRY(claimEnd(comm));
      abortHandle(comm);
      return {};
    }
    HORING_TRY(checkHandle(comm));
    comm->queue->drain();
    HORING_TRY(comm->communicator->leave());
    HORING_TRY(claimEnd(comm));
    giveBackHandle(comm);
    return {};
  });
}

horingResult_t horingCommAbort(horingComm_t comm) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    if (!comm) return {};
    HORING_TRY(checkAlive(comm));
    const horingComm::Making making = comm->making;
    if (making == horingComm::Making::kMade) HORING_TRY(checkProcess(comm));
    if (making == horingComm::Making::kReserved) HORING_TRY(checkHandle(comm));
    HORING_TRY(checkMayWait());
    HORING_TRY(claimEnd(comm));
    abortHandle(comm);
    return {};
  });
}

horingResult_t horingCommCount(const horingComm_t comm, int* count) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!count) return makeStatus(Code::kInvalidArgument, "count is NULL: expected where to put it");
    *count = comm->communicator->membership().ranks();
    return {};
  });
}

horingResult_t horingCommUserRank(const horingComm_t comm, int* rank) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!rank) return makeStatus(Code::kInvalidArgument, "rank is NULL: expected where to put it");
    *rank = comm->communicator->membership().rank();
    return {};
  });
}

horingResult_t horingCommGetAsyncError(horingComm_t comm, horingResult_t* asyncError) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkAlive(comm));
    if (!asyncError)
      return makeStatus(Code::kInvalidArgument, "asyncError is NULL: expected where to put it");
    const horingComm::Making making = comm->making;
    if (making == horingComm::Making::kMade) {
      HORING_TRY(checkProcess(comm));
      *asyncError = report(comm->queue->asyncError(), comm);
    } else if (hasLeft(making)) {
      *asyncError = horingSuccess;
    } else {
      *asyncError =
          making == horingComm::Making::kFailed ? report(comm->making_error, comm) : horingInProgress;
    }
    return {};
  });
}

horingResult_t horingCommGetFailedRank(horingComm_t comm, int* rank) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkAlive(comm));
    const bool made = comm->making.load(std::memory_order_acquire) != horingComm::Making::kFailed;
    if (made) HORING_TRY(checkHandle(comm));
    if (!rank) return makeStatus(Code::kInvalidArgument, "rank is NULL: expected where to put it");
    *rank = made ? comm->communicator->membership().control().failedRank() : comm->making_failed_rank;
    return {};
  });
}

horingResult_t horingCommSetTimeout(horingComm_t comm, int timeoutMs) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    const auto [least, most] = rangeOf("HORING_TIMEOUT_MS");
    if (timeoutMs < least || timeoutMs > most)
      return makeStatus(Code::kInvalidArgument, "timeoutMs is %d: expected %lld to %lld", timeoutMs,
                        static_cast<long long>(least), static_cast<long long>(most));
    comm->communicator->setTimeoutMs(operationMs(timeoutMs));
    return {};
  });
}

horingResult_t horingCommGetTimeout(const horingComm_t comm, int* timeoutMs) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!timeoutMs) return makeStatus(Code::kInvalidArgument, "timeoutMs is NULL: expected where to put it");
    const int64_t now = comm->communicator->timeoutMs();
    *timeoutMs = now == kNoDeadlineMs ? 0 : static_cast<int>(now);
    return {};
  });
}

horingResult_t horingCommCuDevice(const horingComm_t comm, int* device) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!device) return makeStatus(Code::kInvalidArgument, "device is NULL: expected where to put it");
    *device = comm->queue->gpu().value_or(comm->listed_gpu);
    return {};
  });
}

horingResult_t horingCommMemoryBytes(const horingComm_t comm, uint64_t* bytes) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkAlive(comm));
    if (!bytes) return makeStatus(Code::kInvalidArgument, "bytes is NULL: expected where to put it");
    if (isSuspended(comm)) {
      *bytes = 0;
      return {};
    }
    HORING_TRY(checkHandle(comm));
    *bytes = comm->communicator->memoryBytes() + comm->queue->memoryBytes();
    return {};
  });
}

horingResult_t horingCommIsReproducible(const horingComm_t comm, int* reproducible) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!reproducible)
      return makeStatus(Code::kInvalidArgument, "reproducible is NULL: expected where to put it");
    *reproducible = comm->communicator->membership().config().reproducible ? 1 : 0;
    return {};
  });
}

horingResult_t horingCommIsSuspended(const horingComm_t comm, int* suspended) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkAlive(comm));
    if (!suspended) return makeStatus(Code::kInvalidArgument, "suspended is NULL: expected where to put it");
    *suspended = isSuspended(comm) ? 1 : 0;
    return {};
  });
}

horingResult_t horingCommDescribe(const horingComm_t comm, char* buffer, size_t length) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    return copyText(horing::describe(*comm->communicator), buffer, length);
  });
}

}  // extern "C"
