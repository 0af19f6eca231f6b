#pragma once
// A rank's end of the control plane: it joins the rendezvous (control/root_service.h), exchanges small blobs
// with all other ranks, and hears when one of them is lost or reports an error.
//
// All that crosses the wire is sealed with keys made in a mutual proof of the unique ID's key. A thread of its own reads
// what arrives and says at intervals that this rank is alive, whatever the program does meanwhile. When the connection breaks
// it makes another one, and both ends go on where they were; only a rank that says nothing at intervals cannot.
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

struct JoinOptions {
  UniqueId id;
  int rank = 0;
  int ranks = 1;
  // How long to wait for all ranks.
  int64_t timeout_ms = 60'000;
  // The rendezvous was open before the ID was known: if nobody listens there, it is over. Else it may open later.
  bool root_was_open = false;
  // Must outlive the Control.
  const Clock* clock = nullptr;
  // Ends every wait within 50 ms when it becomes true. May be null; must outlive the Control.
  const std::atomic<bool>* abort = nullptr;
  // How often this rank says that it is alive, and hears the same of the rendezvous; whoever is silent for kBeatsMissed times
  // as long (control/liveness.h) is lost. 0: never.
  int64_t heartbeat_ms = 0;
  // Where to put failedRank() when joining fails. May be null.
  int* failed_rank = nullptr;
  Log log{};
};

// Any thread, but for allGather() and leave(): one at a time, and nothing after leave(). The first error is sticky: every later call returns it.
class Control {
 public:
  // Returns when all ranks have arrived. kTimeout names those that did not, or says why the rendezvous was
  // not reached; kInvalidArgument: a rank out of range or a different number of ranks; kInvalidUsage: a rank
  // that came twice; kRemoteError: another key or version, or a rank that was lost meanwhile.
  static Result<std::unique_ptr<Control>> join(const JoinOptions& options);
  // Without leave() before it, the other ranks are told that this rank is lost, or what it announced: for these words it waits
  // as leave() does.
  virtual ~Control() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Collective over all ranks, in the same order everywhere: returns what each rank gave, by rank. At most
  // kMaxGatherBytes each, empty is fine. At the deadline the error names the ranks that did not take part, in `what`, if given.
  virtual Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine,
                                                                Deadline deadline,
                                                                std::string_view what = {}) = 0;

  // Whether something that the rendezvous said has arrived, and this rank has not heard it yet.
  virtual bool isBehind() const = 0;
  // Waits until this rank has heard all that the rendezvous had decided before, some 100 us; returns what status() is then. For who
  // may have been stopped without knowing. kTimeout, which sticks: no answer by 2 s after the deadline.
  virtual Status catchUp(Deadline deadline) = 0;
  // The first error; kRemoteError names the rank that is lost or announced an error. Takes nanoseconds while there is none.
  virtual Status status() const = 0;
  // Becomes readable, and stays so, when there is an error or the rendezvous has closed; -1 from then on. Belongs to this
  // object.
  virtual int fd() const = 0;
  // The rank that the error is about; -1 while there is none or it is about no one rank.
  virtual int failedRank() const = 0;

  // Tells every rank that this one cannot go on; does not wait for them. Later calls do nothing.
  virtual void announceError(const Status& error) = 0;
  // Says goodbye: the other ranks carry on. Waits at most 1 s for the rendezvous to hear it, and 3.5 s more (kReturnTryMs)
  // while the connection is broken.
  virtual void leave() = 0;

  // From now on the rendezvous' questions about calls, and about launches of kernels, are answered from these logs, which must
  // outlive this object.
  virtual void answerFrom(const CallLog& calls, const CallLog& launches) = 0;
  // Has this done once, by the thread of this object, when there is an error, this rank's own or another's; what it does must
  // not use this object. To be set before anything fails.
  virtual void onFailure(std::function<void(const Status& error)> action) = 0;
  // Has this done, by the thread of this object as well, again and again for a moment after each of the rendezvous' questions: somebody
  // waits, perhaps for something that this rank owes. Beats wait meanwhile; it may use this object. To be set once.
  virtual void onQuestion(std::function<void()> action) = 0;
  // Tells the rendezvous that this rank waits, or why it cannot go on. If somebody is to blame, status() says so soon.
  virtual void reportCall(const CallReport& report) = 0;

  // The same of a group of sends and receives.
  virtual void reportState(const RankState& state) = 0;

  // "rank 3 (node-a, pid 4711)", for messages.
  virtual std::string describeRank(int rank) const = 0;
};

}  // namespace horing
