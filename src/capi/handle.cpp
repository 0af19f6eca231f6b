#include "capi/handle.h"

#include <thread>
#include <vector>

namespace horing {

namespace {

// Handles are as many as there ever were communicators at one time; those that ended wait here for the next.
struct HandlePool {
  std::mutex mutex;
  std::vector<std::unique_ptr<horingComm>> all;
  std::vector<horingComm_t> free;
};
HandlePool& pool() {
  static auto* handles = new HandlePool;  // never destroyed: calls may come while the program ends
  return *handles;
}

horingComm_t takeHandle() {
  HandlePool& handles = pool();
  std::lock_guard lock(handles.mutex);
  if (!handles.free.empty()) {
    const horingComm_t again = handles.free.back();
    handles.free.pop_back();
    return again;
  }
  handles.free.reserve(handles.all.size() + 1);  // so that giving back needs no memory
  handles.all.push_back(std::make_unique<horingComm>());
  return handles.all.back().get();
}

}  // namespace

Result<horingComm_t> makeHandle(CommunicatorOptions options, std::shared_ptr<RootService> root) {
  options.segments = &processSegments();
  HORING_ASSIGN(std::unique_ptr<Communicator> communicator, Communicator::create(std::move(options)));
  const horingComm_t handle = takeHandle();
  handle->communicator = std::move(communicator);
  handle->queue = std::make_unique<CommandQueue>(*handle->communicator);
  handle->root = std::move(root);
  return handle;
}

void publishHandle(horingComm_t handle, horingComm_t* comm) {
  handle->alive = true;
  *comm = handle;
}

void giveBackHandle(horingComm_t comm) {
  comm->alive = false;
  // The caller itself is one of them.
  while (comm->callers.load() > 1) std::this_thread::yield();
  comm->queue.reset();
  comm->communicator.reset();
  comm->root.reset();
  comm->registrations.clear();
  comm->reduction_ops.clear();
  comm->last_error.clear();
  ++comm->life;
  HandlePool& handles = pool();
  std::lock_guard lock(handles.mutex);
  handles.free.push_back(comm);
}

Status checkHandle(horingComm_t comm) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument,
                      "comm is NULL: expected a communicator from a horingCommInit function");
  if (!comm->alive)
    return makeStatus(Code::kInvalidArgument, "comm is not a live communicator: it was destroyed or aborted");
  if (comm->communicator->isForkedChild())
    return makeStatus(
        Code::kInvalidUsage,
        "this communicator belongs to the process that made it, and this is a forked child: make "
        "a new one here");
  return {};
}

}  // namespace horing
