#pragma once
// What a horingComm_t points to, and the guard that every entry point passes.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/float_environment.h"
#include "base/service_thread.h"
#include "base/status.h"
#include "comm/calls/reduction_ops.h"
#include "comm/communicator.h"
#include "comm/queue/command_queue.h"
#include "control/root_service.h"
#include "horing/horing.h"

// Never freed, but used again (see makeHandle): so a stale pointer, or one that another thread ends just now, is found out
// and does no harm.
struct horingComm {
  std::atomic<bool> alive{false};
  std::atomic<uint64_t> life{0};  // how many communicators were here before: tells this one from them
  std::atomic<int> callers{0};    // threads inside an entry point with this handle
  // How far the making has come; kReserved: the end of a group will begin it. Until it is kMade, only its thread touches root,
  // communicator and queue. release and acquire. Its thread is joined by whoever gives the handle back.
  enum class Making : uint8_t { kMade, kReserved, kInProgress, kFailed };
  std::atomic<Making> making{Making::kMade};
  horing::Status making_error;                     // once it has failed
  int making_failed_rank = -1;                     // that the error is about
  std::shared_ptr<std::atomic<bool>> ends_making;  // set: the making ends with an error
  horing::ServiceThread maker;                     // where the caller does not wait for it
  std::shared_ptr<horing::RootService>
      root;  // shared by the ranks of this process, where it hosts the rendezvous
  std::unique_ptr<horing::Communicator> communicator;
  std::unique_ptr<horing::CommandQueue> queue;  // of the communicator
  horing::ReductionOps reduction_ops;
  std::mutex error_mutex;
  std::string last_error;  // under error_mutex
};

namespace horing {

class SegmentList;
// Memory from horingMemAlloc, of all communicators. Any thread.
SegmentList& processSegments();

// Makes a communicator, collectively, and a handle for it that is not alive yet, so that nobody uses it before all is well.
Result<horingComm_t> makeHandle(CommunicatorOptions options, std::shared_ptr<RootService> root);
// What a communicator is made from, and the rendezvous if this process hosts it.
struct Origin {
  CommunicatorOptions options;
  std::shared_ptr<RootService> root;
};
// Makes one on a thread of its own, from what `find` returns there, and writes at once a handle that is alive: until it is made
// checkHandle() refuses it. Returns kInProgress.
Status makeHandleLater(std::function<Result<Origin>()> find, horingComm_t* comm);
// Ends the making, if it goes on, and waits until it is over. Any thread inside an entry point with this handle.
void stopMaking(horingComm_t comm);
// Gives it to the caller.
void publishHandle(horingComm_t handle, horingComm_t* comm);
// Gives it back. Waits until no other thread is inside; nobody new gets in since it is not alive any more.
void giveBackHandle(horingComm_t comm);

// Keeps a handle from being given back while an entry point uses it.
class HandleUse {
 public:
  explicit HandleUse(horingComm_t comm) : comm_(comm) {
    // seq_cst, as the accesses in giveBackHandle(): one of the two threads sees the other.
    if (comm_) comm_->callers.fetch_add(1);
  }
  ~HandleUse() {
    if (comm_) comm_->callers.fetch_sub(1);
  }
  HandleUse(const HandleUse&) = delete;
  HandleUse& operator=(const HandleUse&) = delete;

 private:
  horingComm_t comm_;
};

// A handle that is alive and written at once, of a communicator that the end of a group makes. Resource.
class ReservedHandle {
 public:
  explicit ReservedHandle(horingComm_t* place);
  // Gives it back if nothing has begun to make it.
  ~ReservedHandle();
  ReservedHandle(const ReservedHandle&) = delete;
  ReservedHandle& operator=(const ReservedHandle&) = delete;

  // Makes it: now, or on a thread of its own (kInProgress). After a failure it is given back, and NULL is where it was written.
  Status make(Result<Origin> origin, bool blocking);

 private:
  horingComm_t* place_;
  horingComm_t handle_;
};

// Remembers the text of the calling thread's latest failure and, if given, of the communicator's, if there is memory for it.
horingResult_t report(const Status& status, horingComm_t comm) noexcept;
// What is reported when there is no memory for a text.
horingResult_t reportOutOfMemory() noexcept;

// The handle is alive; if its communicator is made on a thread, this is the process of that.
Status checkAlive(horingComm_t comm);
// Why checkHandle() refuses it.
Status whyRefused(horingComm_t comm);
// And its communicator is made, and belongs to this process.
inline Status checkHandle(horingComm_t comm) {
  // acquire: pairs with the release where the making ends.
  const bool is_well = comm && comm->alive &&
                       comm->making.load(std::memory_order_acquire) == horingComm::Making::kMade &&
                       !comm->communicator->membership().isForkedChild();
  return is_well ? Status() : whyRefused(comm);
}

// Every entry point is one call of this: no exception leaves the library, and no floating-point environment comes in. `comm` may be NULL or
// stale.
template <typename Body>
horingResult_t guarded(horingComm_t comm, Body body) noexcept {
  const DefaultFloats floats;
  try {
    HandleUse use(comm);
    return report(body(), comm);
  } catch (...) {
    return reportOutOfMemory();
  }
}

}  // namespace horing
