#pragma once
// A rank's end of the control plane: it joins the rendezvous (control/root_service.h), exchanges small blobs with all other ranks,
// and is notified when a rank is lost or reports an error.
//
// Everything on the wire is sealed with keys from a mutual proof of the unique ID's key. A thread receives the messages and sends
// heartbeats, even if the program is busy. When the connection breaks, the thread reconnects and both ends continue where they
// were; without heartbeats (interval 0) this is not possible.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "control/call_log.h"
#include "control/call_report.h"
#include "control/rank_state.h"
#include "control/unique_id.h"

namespace horing {

// How often a wait checks for an abort.
inline constexpr int kAbortCheckMs = 50;

struct JoinOptions {
  UniqueId id;
  int rank = 0;
  int ranks = 1;
  // How long to wait for all ranks.
  int64_t timeout_ms = 60'000;
  // The rendezvous was open before the ID was known: a refused connection means that it has ended. Otherwise it may open later.
  bool root_was_open = false;
  // Must outlive the Control.
  const Clock* clock = nullptr;
  // Ends every wait within 50 ms when it becomes true. May be null; must outlive the Control.
  const std::atomic<bool>* abort = nullptr;
  // Interval of the heartbeats that this rank and the rendezvous send to each other. A rank that is silent for kBeatsMissed
  // intervals (control/liveness.h) is lost. 0: no heartbeats.
  int64_t heartbeat_ms = 0;
  // Receives failedRank() when joining fails. May be null.
  int* failed_rank = nullptr;
  Log log{};
};

// Members may be called from any thread, except that allGather() and leave() run one at a time and nothing follows leave(). The
// first error is sticky: every later call returns it.
class Control {
 public:
  // Returns when all ranks have arrived. kTimeout: names the ranks that did not arrive, or says why the rendezvous could not be
  // reached. kInvalidArgument: the rank is out of range, or ranks disagree about their number. kInvalidUsage: two processes came as
  // one rank. kRemoteError: another key or version, or a rank was lost meanwhile.
  static Result<std::unique_ptr<Control>> join(const JoinOptions& options);
  // Without a leave() before it, the other ranks receive the error that this rank announced, or that it is lost. The destructor
  // waits for the delivery as leave() does.
  virtual ~Control() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // A collective over all ranks, called in the same order on each: returns every rank's blob, by rank. A blob has at most
  // kMaxGatherBytes and may be empty. At the deadline the error names the missing ranks, and `what` if it is given.
  virtual Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine,
                                                                Deadline deadline,
                                                                std::string_view what = {}) = 0;

  // Whether a message of the rendezvous has arrived that this rank has not read yet.
  virtual bool isBehind() const = 0;
  // Waits, some 100 us, until this rank has received everything that the rendezvous decided before, then returns status(). For a
  // rank that may have been stopped without knowing it. kTimeout, which is sticky: no answer by 2 s after the deadline.
  virtual Status catchUp(Deadline deadline) = 0;
  // The first error. kRemoteError names the rank that is lost or announced an error. Takes nanoseconds while there is none.
  virtual Status status() const = 0;
  // Whether there is an error, or the rendezvous has closed and sends nothing more. Waits for that for at most the given time; 0
  // takes nanoseconds.
  virtual bool isOver(int64_t within_ms) const = 0;
  // The rank to blame for the error; -1: no error, or no rank in particular.
  virtual int failedRank() const = 0;

  // Announces to all ranks that this rank cannot continue, without waiting for them. Later calls do nothing.
  virtual void announceError(const Status& error) = 0;
  // Leaves in order: the other ranks continue. Waits at most 1 s for the rendezvous to confirm it, and 3.5 s more (kReturnTryMs)
  // while the connection is broken.
  virtual void leave() = 0;

  // From now on this rank answers inquiries about calls and about launches of kernels from these logs, which must outlive this
  // object.
  virtual void answerFrom(const CallLog& calls, const CallLog& launches) = 0;
  // `action` runs once, in this object's thread, when this or another rank has an error. It must not use this object. Call this
  // before an error can happen.
  virtual void onFailure(std::function<void(const Status& error)> action) = 0;
  // `action` runs in this object's thread, repeatedly for a moment after each inquiry of the rendezvous: a rank waits, perhaps for
  // something that this rank must do. True: it found something to do, and runs again at once. Heartbeats pause while it runs; it may use
  // this object. Call this once.
  virtual void onQuestion(std::function<bool()> action) = 0;
  // Reports to the rendezvous that this rank waits, or why it cannot continue. If a rank is to blame, status() soon says so.
  virtual void reportCall(const CallReport& report) = 0;

  // The same for a group of sends and receives.
  virtual void reportState(const RankState& state) = 0;

  // "rank 3 (node-a, pid 4711)", for messages.
  virtual std::string describeRank(int rank) const = 0;
};

}  // namespace horing
