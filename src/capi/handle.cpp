#include "capi/handle.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "comm/tuning/tuning.h"

namespace horing {

namespace {

// Handles are recycled: there are as many as there were communicators at one time.
struct HandlePool {
  std::mutex mutex;
  std::vector<std::unique_ptr<horingComm>> all;
  std::vector<horingComm_t> free;
};
HandlePool& pool() {
  static auto* handles = new HandlePool;  // never destroyed: calls may come during exit
  return *handles;
}

horingComm_t takeHandle() {
  HandlePool& handles = pool();
  std::lock_guard lock(handles.mutex);
  if (!handles.free.empty()) {
    const horingComm_t again = handles.free.back();
    handles.free.pop_back();
    again->listed_gpu = -1;
    return again;
  }
  handles.free.reserve(handles.all.size() + 1);  // so that giving back does not allocate
  handles.all.push_back(std::make_unique<horingComm>());
  return handles.all.back().get();
}

// The objects of a handle.
struct Made {
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<CommandQueue> queue;
};

void fill(horingComm& handle, Made made, std::shared_ptr<RootService> root) {
  handle.communicator = std::move(made.communicator);
  handle.queue = std::move(made.queue);
  handle.root = std::move(root);
}

constexpr int64_t kLatecomersMs = 3000;
constexpr int64_t kLatecomersLookMs = 10;

// Makes a communicator; `root`: the rendezvous, if this process hosts it. After an abort, or a failure other than missing ranks, late ranks
// are told, so that they do not search a closed rendezvous until their deadline.
Result<std::unique_ptr<Communicator>> makeCommunicator(CommunicatorOptions options, const RootService* root) {
  const std::shared_ptr<std::atomic<bool>> ends = options.aborted;
  Result<std::unique_ptr<Communicator>> made = createTuned(std::move(options));
  if (made.ok() || !root || !root->failed() || made.status().code() == Code::kTimeout) return made;
  for (int64_t waited_ms = 0; waited_ms < kLatecomersMs; waited_ms += kLatecomersLookMs)
    if ((ends && *ends) || root->waitFinished(kLatecomersLookMs)) break;
  return made;
}

Result<Made> make(CommunicatorOptions options, const RootService* root) {
  options.segments = &processSegments();
  Made made;
  HORING_ASSIGN(made.communicator, makeCommunicator(std::move(options), root));
  made.queue = std::make_unique<CommandQueue>(*made.communicator);
  const Status agreed = made.queue->agreeAtOnce();
  if (agreed.ok()) return made;
  if (int* const failed = made.communicator->membership().options().failed_rank)
    *failed = made.communicator->membership().control().failedRank();
  return agreed;
}

Status tryToMake(horingComm& handle, const std::function<Result<Origin>()>& find) {
  HORING_ASSIGN(Origin origin, find());
  origin.options.aborted = handle.ends_making;
  origin.options.failed_rank = &handle.making_failed_rank;
  HORING_ASSIGN(Made made, make(std::move(origin.options), origin.root.get()));
  fill(handle, std::move(made), std::move(origin.root));
  return {};
}

// The thread of makeHandleLater().
void makeNow(horingComm& handle, const std::function<Result<Origin>()>& find) noexcept {
  try {
    handle.making_error = tryToMake(handle, find);
  } catch (...) {
    handle.making_error = Status(Code::kSystemError, "no memory for a communicator");
  }
  handle.making.store(handle.making_error.ok() ? horingComm::Making::kMade : horingComm::Making::kFailed,
                      std::memory_order_release);
}

}  // namespace

Result<horingComm_t> makeHandle(CommunicatorOptions options, std::shared_ptr<RootService> root) {
  HORING_ASSIGN(Made made, make(std::move(options), root.get()));
  const horingComm_t handle = takeHandle();
  fill(*handle, std::move(made), std::move(root));
  return handle;
}

namespace {

// Takes a handle whose communicator is not made yet.
horingComm_t takeUnmade(horingComm::Making making) {
  const horingComm_t handle = takeHandle();
  handle->ends_making = std::make_shared<std::atomic<bool>>(false);
  handle->making = making;
  return handle;
}

Status startMaking(horingComm_t handle, std::function<Result<Origin>()> find) {
  return handle->maker.start("the making of a communicator",
                             [handle, find = std::move(find)] { makeNow(*handle, find); });
}

Status beingMade() {
  return makeStatus(
      Code::kInProgress,
      "the communicator is being made: wait until horingCommGetAsyncError returns horingSuccess");
}

}  // namespace

Status makeHandleLater(std::function<Result<Origin>()> find, horingComm_t* comm) {
  const horingComm_t handle = takeUnmade(horingComm::Making::kInProgress);
  const Status started = startMaking(handle, std::move(find));
  if (!started.ok()) {
    giveBackHandle(handle);
    return started;
  }
  publishHandle(handle, comm);
  return beingMade();
}

ReservedHandle::ReservedHandle(horingComm_t* place)
    : place_(place), handle_(takeUnmade(horingComm::Making::kReserved)) {
  publishHandle(handle_, place);
}

ReservedHandle::~ReservedHandle() {
  HandleUse use(handle_);
  if (handle_->making == horingComm::Making::kReserved && handle_->alive.exchange(false))
    giveBackHandle(handle_);
}

Status ReservedHandle::make(Result<Origin> origin, bool blocking) {
  HandleUse use(handle_);  // so that a concurrent abort does not give it back
  handle_->making = horingComm::Making::kInProgress;
  const bool now = blocking || !origin.ok();
  const auto find = [origin = std::move(origin)] { return origin; };
  Status failed;
  if (now) {
    makeNow(*handle_, find);
    failed = handle_->making_error;
    if (failed.ok()) return {};
  } else {
    failed = startMaking(handle_, find);
    if (failed.ok()) return beingMade();
    handle_->making_error = failed;
    handle_->making = horingComm::Making::kFailed;
  }
  *place_ = nullptr;  // also if another thread aborts it, which waits for this
  if (handle_->alive.exchange(false)) giveBackHandle(handle_);
  return failed;
}

Status suspendHandle(horingComm_t comm, Origin again) {
  auto ends_making = std::make_shared<std::atomic<bool>>(false);
  horingComm::Making making = horingComm::Making::kMade;
  if (!comm->making.compare_exchange_strong(making, horingComm::Making::kSuspending)) return whyRefused(comm);
  // Threads that enter from here on leave the communicator alone. One that entered before may be ending it: then that one waits for this
  // thread, and needs the communicator.
  while (comm->callers.load() > 1) {
    HORING_TRY(checkAlive(comm));
    std::this_thread::yield();
  }
  for (const void* const window : comm->communicator->windows().handles())
    comm->suspended_windows.insert(window);
  comm->queue.reset();
  comm->communicator.reset();
  comm->again = std::move(again.options);
  comm->root = std::move(again.root);
  comm->ends_making = std::move(ends_making);
  comm->making = horingComm::Making::kSuspended;
  return {};
}

Status resumeHandle(horingComm_t comm) {
  horingComm::Making making = horingComm::Making::kSuspended;
  if (!comm->making.compare_exchange_strong(making, horingComm::Making::kInProgress))
    return makeStatus(Code::kInvalidUsage,
                      "comm is not suspended: expected one that horingCommSuspend suspended");
  // An end that has found it suspended waits for this thread, but does not stop it.
  if (Status alive = checkAlive(comm); !alive.ok()) {
    comm->making = horingComm::Making::kSuspended;
    return alive;
  }
  makeNow(*comm, [comm] { return Origin{*std::exchange(comm->again, std::nullopt), std::move(comm->root)}; });
  return comm->making_error;
}

void stopMaking(horingComm_t comm) {
  while (comm->making == horingComm::Making::kInProgress) {
    *comm->ends_making = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void abortHandle(horingComm_t comm) {
  stopMaking(comm);
  if (comm->making == horingComm::Making::kMade) {
    comm->communicator->abort();
    comm->queue->abandonTurns();
  }
  giveBackHandle(comm);
}

void publishHandle(horingComm_t handle, horingComm_t* comm) {
  handle->alive = true;
  *comm = handle;
}

void giveBackHandle(horingComm_t comm) {
  comm->alive = false;
  // One of the callers is this thread.
  while (comm->callers.load() > 1) std::this_thread::yield();
  comm->maker.end([] {});
  comm->queue.reset();
  comm->communicator.reset();
  comm->root.reset();
  comm->reduction_ops.clear();
  comm->registrations = 0;
  comm->suspended_windows.clear();
  comm->last_error.clear();
  comm->ends_making.reset();
  comm->again.reset();
  comm->making_error = {};
  comm->making_failed_rank = -1;
  comm->making = horingComm::Making::kMade;
  ++comm->generation;
  HandlePool& handles = pool();
  std::lock_guard lock(handles.mutex);
  handles.free.push_back(comm);
}

namespace {
Status inForkedChild() {
  return makeStatus(Code::kInvalidUsage,
                    "this communicator belongs to the process that made it, and this is a forked child: make "
                    "a new one here");
}
}  // namespace

Status copyText(const std::string& text, char* buffer, size_t length) {
  if (!buffer || length == 0)
    return makeStatus(Code::kInvalidArgument, "buffer is NULL or length 0: expected room for the text");
  const size_t copied = std::min(text.size(), length - 1);
  std::memcpy(buffer, text.data(), copied);
  buffer[copied] = '\0';
  return {};
}

Status checkAlive(horingComm_t comm) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument,
                      "comm is NULL: expected a communicator from a horingCommInit function");
  if (!comm->alive)
    return makeStatus(Code::kInvalidArgument, "comm is not a live communicator: it was destroyed or aborted");
  return comm->maker.isOfParent() ? inForkedChild() : Status();
}

Status checkProcess(horingComm_t comm) {
  return comm->communicator->membership().isForkedChild() ? inForkedChild() : Status();
}

Status whyRefused(horingComm_t comm) {
  HORING_TRY(checkAlive(comm));
  switch (comm->making) {
    case horingComm::Making::kFailed:
      return comm->making_error;
    case horingComm::Making::kReserved:
      return makeStatus(Code::kInvalidUsage,
                        "comm is made by the end of the group that is open: call it first");
    case horingComm::Making::kInProgress:
      return makeStatus(
          Code::kInvalidArgument,
          "comm is still being made, on its own thread (config.blocking is 0) or by horingCommResume: wait "
          "until horingCommGetAsyncError says horingSuccess, or end it with horingCommAbort");
    case horingComm::Making::kSuspending:
    case horingComm::Making::kSuspended:
      return makeStatus(Code::kInvalidUsage,
                        "comm is suspended: call horingCommResume on all its ranks first");
    case horingComm::Making::kMade:
      break;
  }
  return checkProcess(comm);
}

}  // namespace horing
