#pragma once
// The object behind a horingComm_t, and the guard of every entry point.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/float_environment.h"
#include "base/service_thread.h"
#include "base/status.h"
#include "comm/calls/reduction_ops.h"
#include "comm/communicator.h"
#include "comm/queue/command_queue.h"
#include "control/root_service.h"
#include "horing/horing.h"

// Never freed, but reused (see makeHandle): so a stale pointer, or a handle that another thread is ending, is detected and harmless.
struct horingComm {
  std::atomic<bool> alive{false};
  std::atomic<uint64_t> generation{0};  // the number of earlier communicators with this handle
  std::atomic<int> callers{0};          // threads inside an entry point with this handle
  // The state of the initialisation; kReserved: the end of a group begins it. Until kMade, only the initialising thread accesses root,
  // communicator and queue. The thread that gives the handle back joins the initialising thread.
  // kSuspending: the communicator has left its ranks and awaits its end, see suspendHandle(). kSuspended: it has given its memory back;
  // horingCommResume makes it again.
  // A thread inside an entry point that has found kMade may use the communicator until it leaves: seq_cst, as `callers` and `alive`.
  enum class Making : uint8_t { kMade, kReserved, kInProgress, kFailed, kSuspending, kSuspended };
  std::atomic<Making> making{Making::kMade};
  horing::Status making_error;                       // set after a failure
  int making_failed_rank = -1;                       // the rank that caused the error
  std::shared_ptr<std::atomic<bool>> ends_making;    // set: the initialisation ends with an error
  horing::ServiceThread maker;                       // for a non-blocking initialisation
  std::optional<horing::CommunicatorOptions> again;  // kSuspended: what it is made from again
  std::shared_ptr<horing::RootService>
      root;  // shared by the ranks of this process, if it hosts the rendezvous
  std::unique_ptr<horing::Communicator> communicator;
  std::unique_ptr<horing::CommandQueue> queue;  // of the communicator
  int listed_gpu = -1;                          // in horingCommInitAll's list; -1: in none
  horing::ReductionOps reduction_ops;
  // Handles of horingCommRegister, and windows in memory of the host, that are not NULL and not deregistered.
  std::atomic<int> registrations{0};
  std::set<const void*>
      suspended_windows;  // in memory of GPUs, which a suspension has ended before they were deregistered
  std::mutex error_mutex;
  std::string last_error;  // under error_mutex
};

namespace horing {

class SegmentList;
// Memory from horingMemAlloc, of all communicators. Any thread.
SegmentList& processSegments();

// Makes a communicator, collectively, and a handle that is not alive yet, so that it cannot be used before everything has succeeded.
Result<horingComm_t> makeHandle(CommunicatorOptions options, std::shared_ptr<RootService> root);
// The options for a communicator, and the rendezvous if this process hosts it.
struct Origin {
  CommunicatorOptions options;
  std::shared_ptr<RootService> root;
};
// Makes a communicator on a separate thread, from the result of `find`, which runs there, and writes a live handle at once: checkHandle()
// refuses it until the communicator is made. Returns kInProgress.
Status makeHandleLater(std::function<Result<Origin>()> find, horingComm_t* comm);
// Ends the initialisation, if in progress, and waits for it. Any thread inside an entry point with this handle.
void stopMaking(horingComm_t comm);
// Ends the communicator, which has left its ranks, and keeps the handle for resumeHandle(), on a thread that is inside an entry point
// with it. Waits until no other thread is inside. An error, and leaves it to another thread: that one suspends it, or ends it.
Status suspendHandle(horingComm_t comm, Origin again);
// Makes the communicator of a suspended handle again, with its other ranks. kInvalidUsage: it is not suspended. After another error only
// its end remains.
Status resumeHandle(horingComm_t comm);
inline bool isSuspended(horingComm_t comm) {
  return comm->making == horingComm::Making::kSuspended;
}
// Whether a communicator in this state was made and has left its ranks.
inline bool hasLeft(horingComm::Making making) {
  return making >= horingComm::Making::kSuspending;
}
// Ends the communicator in whatever state it is, and recycles the handle, which the caller has made not alive.
void abortHandle(horingComm_t comm);
// Makes the handle alive and writes it to *comm.
void publishHandle(horingComm_t handle, horingComm_t* comm);
// Recycles the handle. Waits until no other thread is inside; no new thread can enter since the handle is not alive.
void giveBackHandle(horingComm_t comm);

// Prevents a handle from being recycled while an entry point uses it.
class HandleUse {
 public:
  explicit HandleUse(horingComm_t comm) : comm_(comm) {
    // seq_cst, like the accesses in giveBackHandle() and suspendHandle(): one of the two threads sees the other.
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

// A live handle, written at once, for a communicator that the end of a group makes. Resource.
class ReservedHandle {
 public:
  explicit ReservedHandle(horingComm_t* place);
  // Recycles the handle if the initialisation has not begun.
  ~ReservedHandle();
  ReservedHandle(const ReservedHandle&) = delete;
  ReservedHandle& operator=(const ReservedHandle&) = delete;

  // Makes the communicator: now, or on a separate thread (kInProgress). After a failure recycles the handle and sets *comm to NULL.
  Status make(Result<Origin> origin, bool blocking);

 private:
  horingComm_t* place_;
  horingComm_t handle_;
};

// Stores the error text for the calling thread and, if given, for the communicator, if memory is available.
horingResult_t report(const Status& status, horingComm_t comm) noexcept;
// Reports an error without memory for a text.
horingResult_t reportOutOfMemory() noexcept;

// Into memory of the caller, cut at its length, with a terminating zero. Errors: kInvalidArgument, there is none.
Status copyText(const std::string& text, char* buffer, size_t length);

// Checks that the handle is alive and, if its communicator is being made on a thread, that this is the same process.
Status checkAlive(horingComm_t comm);
// Of a handle that was found kMade: checks that this is the process that made its communicator.
Status checkProcess(horingComm_t comm);
// The reason why checkHandle() refuses the handle.
Status whyRefused(horingComm_t comm);
// Also checks that the communicator is made and belongs to this process.
inline Status checkHandle(horingComm_t comm) {
  const bool is_well = comm && comm->alive && comm->making == horingComm::Making::kMade &&
                       !comm->communicator->membership().isForkedChild();
  return is_well ? Status() : whyRefused(comm);
}

// Every entry point is one call of this: no exception leaves the library, and the caller's floating-point environment is not used. `comm`
// may be NULL or stale.
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
