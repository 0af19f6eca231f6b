// Making, asking and ending communicators.
#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <vector>

#include "capi/group.h"
#include "capi/handle.h"
#include "capi/on_threads.h"
#include "capi/streams.h"
#include "comm/launcher.h"
#include "transport/loopback/hub.h"

namespace horing {

namespace {

// The rendezvous of an ID that was given out belongs to the ranks of this process that use the ID: it ends with the last
// of them, and says so to the others. Until the first has come, it is kept here; nobody coming, it ends by itself.
struct Rendezvous {
  UniqueId id;
  std::shared_ptr<RootService> unclaimed;
  std::weak_ptr<RootService> service;
};
struct RendezvousList {
  std::mutex mutex;
  std::list<Rendezvous> entries;
};
RendezvousList& rendezvousList() {
  static auto* list = new RendezvousList;  // never destroyed: its threads may outlive static destruction
  return *list;
}

// What a communicator is made with. Warns of variables that look like ours and are not.
Result<Config> readEnvironment() {
  HORING_ASSIGN(Config config, Config::fromEnvironment());
  const Log log(config.logLevel());
  for (const std::string& sentence : unknownVariables()) log.warn("config", "%s", sentence.c_str());
  return config;
}

Result<UniqueId> openRendezvous(const Config& config, RootOptions::Reach reach) {
  RootOptions options;
  options.reach = reach;
  options.family = config.socket_family;
  options.interfaces = config.socket_ifname;
  options.log = Log(config.logLevel());
  HORING_ASSIGN(std::shared_ptr<RootService> service, RootService::start(options));
  const UniqueId id = service->id();
  RendezvousList& list = rendezvousList();
  std::lock_guard lock(list.mutex);
  list.entries.remove_if([](const Rendezvous& old) {
    const auto alive = old.service.lock();
    return !alive || alive->finished();
  });
  list.entries.push_back({id, service, service});
  return id;
}

// The rendezvous of this ID if this process hosts it, else null.
std::shared_ptr<RootService> claimRendezvous(const UniqueId& id) {
  RendezvousList& list = rendezvousList();
  std::lock_guard lock(list.mutex);
  for (Rendezvous& entry : list.entries) {
    if (entry.id != id) continue;
    std::shared_ptr<RootService> service = entry.service.lock();
    entry.unclaimed.reset();
    return service;
  }
  return nullptr;
}

// Returns a handle that is not alive yet, so that nobody uses it before all is well.
Result<horingComm_t> makeHandle(CommunicatorOptions options, std::shared_ptr<RootService> root) {
  options.segments = &processSegments();
  HORING_ASSIGN(std::unique_ptr<Communicator> communicator, Communicator::create(std::move(options)));
  const horingComm_t handle = takeHandle();
  handle->communicator = std::move(communicator);
  handle->queue = std::make_unique<CommandQueue>(*handle->communicator);
  handle->root = std::move(root);
  return handle;
}

void publish(horingComm_t handle, horingComm_t* comm) {
  handle->alive = true;
  *comm = handle;
}

Status initRankNow(horingComm_t* comm, int ranks, const horingUniqueId& given, int rank) {
  CommunicatorOptions options;
  HORING_ASSIGN(options.config, readEnvironment());
  UniqueId id;
  std::memcpy(id.bytes.data(), given.internal, HORING_UNIQUE_ID_BYTES);
  options.id = id;
  options.rank = rank;
  options.ranks = ranks;
  // Claimed before the ranks meet, so that it lives as long as the last rank of this process.
  HORING_ASSIGN(const horingComm_t handle, makeHandle(std::move(options), claimRendezvous(id)));
  publish(handle, comm);
  return {};
}

Status initRank(horingComm_t* comm, int ranks, const horingUniqueId& given, int rank) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument, "comm is NULL: expected where to put the communicator");
  if (ranks < 1 || ranks > kMaxRanks)
    return makeStatus(Code::kInvalidArgument, "nranks is %d: expected 1 to %d", ranks, kMaxRanks);
  if (rank < 0 || rank >= ranks)
    return makeStatus(Code::kInvalidArgument, "rank is %d: expected 0 to %d", rank, ranks - 1);
  if (!groupIsOpen()) return initRankNow(comm, ranks, given, rank);
  addInitToGroup([comm, ranks, given, rank] { return initRankNow(comm, ranks, given, rank); });
  return {};
}

// After a failure that is not about missing ranks: those that are about to come shall hear of it, rather than look for a
// rendezvous that is gone until their deadline passes.
void waitForLatecomers(const RootService& root, const Status& why) {
  constexpr int64_t kLatecomersMs = 3000;
  if (why.code() != Code::kTimeout) root.waitFinished(kLatecomersMs);
}

Status initFromEnv(horingComm_t* comm) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument, "comm is NULL: expected where to put the communicator");
  CommunicatorOptions options;
  HORING_ASSIGN(options.config, readEnvironment());
  HORING_ASSIGN(Launched launched, launchedRank(options.config, Log(options.config.logLevel())));
  options.id = launched.id;
  options.rank = launched.rank;
  options.ranks = launched.ranks;
  const std::shared_ptr<RootService> root = std::move(launched.root);
  const auto made = makeHandle(std::move(options), root);
  if (!made.ok() && root) waitForLatecomers(*root, made.status());
  HORING_TRY(made.status());
  publish(made.value(), comm);
  return {};
}

Status initAll(horingComm_t* comms, int ranks) {
  if (!comms)
    return makeStatus(Code::kInvalidArgument, "comms is NULL: expected room for ndev communicators");
  if (ranks < 1 || ranks > kMaxLoopbackRanks)
    return makeStatus(Code::kInvalidArgument, "ndev is %d: expected 1 to %d", ranks, kMaxLoopbackRanks);
  CommunicatorOptions options;
  HORING_ASSIGN(options.config, readEnvironment());
  HORING_ASSIGN(options.id, openRendezvous(options.config, RootOptions::Reach::kThisMachine));
  HORING_ASSIGN(options.hub, LoopbackHub::create(ranks));
  options.ranks = ranks;
  const std::shared_ptr<RootService> root = claimRendezvous(options.id);
  std::vector<Result<horingComm_t>> made(static_cast<size_t>(ranks),
                                         Status(Code::kSystemError, "no memory for a communicator"));
  HORING_TRY(onThreads(ranks, [&](int rank) {
    CommunicatorOptions own = options;
    own.rank = rank;
    made[static_cast<size_t>(rank)] = makeHandle(std::move(own), root);
  }));
  Status first;
  for (const auto& one : made)
    if (first.ok() && !one.ok()) first = one.status();
  for (size_t rank = 0; rank < made.size(); ++rank) {
    if (first.ok()) {
      publish(made[rank].value(), &comms[rank]);
    } else if (made[rank].ok()) {
      giveBackHandle(made[rank].value());
    }
  }
  return first;
}

// Of several threads that end a communicator, one gives the handle back.
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

horingResult_t horingGetUniqueId(horingUniqueId* uniqueId) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    if (!uniqueId) return makeStatus(Code::kInvalidArgument, "uniqueId is NULL: expected where to put it");
    HORING_ASSIGN(const Config config, Config::fromEnvironment());
    HORING_ASSIGN(const UniqueId id, openRendezvous(config, RootOptions::Reach::kNetwork));
    std::memcpy(uniqueId->internal, id.bytes.data(), HORING_UNIQUE_ID_BYTES);
    return {};
  });
}

horingResult_t horingCommInitRank(horingComm_t* comm, int nranks, horingUniqueId commId, int rank) {
  return horing::guardedLaunch(nullptr, [&] { return horing::initRank(comm, nranks, commId, rank); });
}

horingResult_t horingCommInitAll(horingComm_t* comms, int ndev, const int* /*devlist*/) {
  return horing::guarded(nullptr, [&] { return horing::initAll(comms, ndev); });
}

horingResult_t horingCommInitFromEnv(horingComm_t* comm) {
  return horing::guarded(nullptr, [&] { return horing::initFromEnv(comm); });
}

horingResult_t horingCommDestroy(horingComm_t comm) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    HORING_TRY(checkMayWait());
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
    HORING_TRY(checkHandle(comm));
    HORING_TRY(checkMayWait());
    HORING_TRY(claimEnd(comm));
    comm->communicator->abort();
    comm->queue->abandonTurns();
    giveBackHandle(comm);
    return {};
  });
}

horingResult_t horingCommCount(const horingComm_t comm, int* count) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!count) return makeStatus(Code::kInvalidArgument, "count is NULL: expected where to put it");
    *count = comm->communicator->ranks();
    return {};
  });
}

horingResult_t horingCommUserRank(const horingComm_t comm, int* rank) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!rank) return makeStatus(Code::kInvalidArgument, "rank is NULL: expected where to put it");
    *rank = comm->communicator->rank();
    return {};
  });
}

horingResult_t horingCommGetAsyncError(horingComm_t comm, horingResult_t* asyncError) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!asyncError)
      return makeStatus(Code::kInvalidArgument, "asyncError is NULL: expected where to put it");
    *asyncError = report(comm->communicator->asyncError(), comm);
    return {};
  });
}

horingResult_t horingCommMemoryBytes(const horingComm_t comm, uint64_t* bytes) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!bytes) return makeStatus(Code::kInvalidArgument, "bytes is NULL: expected where to put it");
    *bytes = comm->communicator->memoryBytes();
    return {};
  });
}

horingResult_t horingCommDescribe(const horingComm_t comm, char* buffer, size_t length) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    if (!buffer || length == 0)
      return makeStatus(Code::kInvalidArgument, "buffer is NULL or length 0: expected room for the text");
    const std::string text = comm->communicator->describe();
    const size_t copied = std::min(text.size(), length - 1);
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
    return {};
  });
}

}  // extern "C"
