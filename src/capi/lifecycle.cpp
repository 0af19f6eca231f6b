// Making, asking and ending communicators.
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "capi/handle.h"
#include "comm/launcher.h"
#include "transport/loopback/hub.h"

namespace horing {

namespace {

// Rendezvous of IDs given out by horingGetUniqueId, which has no handle to keep them in. They end by
// themselves when all ranks have left, and are cleared away by the next call.
struct Rendezvous {
  std::mutex mutex;
  std::list<std::unique_ptr<RootService>> services;
};
Rendezvous& rendezvous() {
  static auto* all = new Rendezvous;  // never destroyed: its threads may outlive static destruction
  return *all;
}

Result<UniqueId> openRendezvous(const Config& config) {
  RootOptions options;
  options.family = config.socket_family;
  options.interfaces = config.socket_ifname;
  options.log = Log(config.logLevel());
  HORING_ASSIGN(std::unique_ptr<RootService> service, RootService::start(options));
  const UniqueId id = service->id();
  Rendezvous& all = rendezvous();
  std::lock_guard lock(all.mutex);
  all.services.remove_if([](const auto& old) { return old->finished(); });
  all.services.push_back(std::move(service));
  return id;
}

Result<std::unique_ptr<horingComm>> makeHandle(CommunicatorOptions options) {
  auto handle = std::make_unique<horingComm>();
  HORING_ASSIGN(handle->communicator, Communicator::create(std::move(options)));
  return handle;
}

Status initRank(horingComm_t* comm, int ranks, const horingUniqueId& given, int rank) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument, "comm is NULL: expected where to put the communicator");
  if (ranks < 1 || ranks > kMaxRanks)
    return makeStatus(Code::kInvalidArgument, "nranks is %d: expected 1 to %d", ranks, kMaxRanks);
  if (rank < 0 || rank >= ranks)
    return makeStatus(Code::kInvalidArgument, "rank is %d: expected 0 to %d", rank, ranks - 1);
  CommunicatorOptions options;
  HORING_ASSIGN(options.config, Config::fromEnvironment());
  std::memcpy(options.id.bytes.data(), given.internal, HORING_UNIQUE_ID_BYTES);
  options.rank = rank;
  options.ranks = ranks;
  HORING_ASSIGN(auto handle, makeHandle(std::move(options)));
  *comm = handle.release();
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
  HORING_ASSIGN(options.config, Config::fromEnvironment());
  HORING_ASSIGN(Launched launched, launchedRank(options.config, Log(options.config.logLevel())));
  options.id = launched.id;
  options.rank = launched.rank;
  options.ranks = launched.ranks;
  auto made = makeHandle(std::move(options));
  if (!made.ok() && launched.root) waitForLatecomers(*launched.root, made.status());
  HORING_ASSIGN(auto handle, std::move(made));
  handle->root = std::move(launched.root);
  *comm = handle.release();
  return {};
}

Status initAll(horingComm_t* comms, int ranks) {
  if (!comms)
    return makeStatus(Code::kInvalidArgument, "comms is NULL: expected room for ndev communicators");
  if (ranks < 1 || ranks > kMaxLoopbackRanks)
    return makeStatus(Code::kInvalidArgument, "ndev is %d: expected 1 to %d", ranks, kMaxLoopbackRanks);
  CommunicatorOptions options;
  HORING_ASSIGN(options.config, Config::fromEnvironment());
  HORING_ASSIGN(options.id, openRendezvous(options.config));
  HORING_ASSIGN(options.hub, LoopbackHub::create(ranks));
  options.ranks = ranks;
  // Meeting is collective, so every rank needs a thread for it.
  std::vector<Status> outcomes(static_cast<size_t>(ranks));
  std::vector<std::unique_ptr<horingComm>> handles(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions own = options;
      own.rank = rank;
      auto made = makeHandle(std::move(own));
      const auto index = static_cast<size_t>(rank);
      if (made.ok()) {
        handles[index] = made.take();
      } else {
        outcomes[index] = made.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) HORING_TRY(outcome);
  for (size_t rank = 0; rank < handles.size(); ++rank) comms[rank] = handles[rank].release();
  return {};
}

void end(horingComm_t comm) {
  forgetErrors(comm);
  comm->alive = 0;
  comm->communicator.reset();
  delete comm;
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
    HORING_ASSIGN(const UniqueId id, openRendezvous(config));
    std::memcpy(uniqueId->internal, id.bytes.data(), HORING_UNIQUE_ID_BYTES);
    return {};
  });
}

horingResult_t horingCommInitRank(horingComm_t* comm, int nranks, horingUniqueId commId, int rank) {
  return horing::guarded(nullptr, [&] { return horing::initRank(comm, nranks, commId, rank); });
}

horingResult_t horingCommInitAll(horingComm_t* comms, int ndev, const int* /*devlist*/) {
  return horing::guarded(nullptr, [&] { return horing::initAll(comms, ndev); });
}

horingResult_t horingCommInitFromEnv(horingComm_t* comm) {
  return horing::guarded(nullptr, [&] { return horing::initFromEnv(comm); });
}

horingResult_t horingCommDestroy(horingComm_t comm) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    HORING_TRY(comm->communicator->leave());
    end(comm);
    return {};
  });
}

horingResult_t horingCommAbort(horingComm_t comm) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    comm->communicator->abort();
    end(comm);
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
