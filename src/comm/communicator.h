#pragma once
// A rank's end of a communicator: it owns the parts, prepares calls, and runs them.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "comm/calls/planner.h"
#include "comm/calls/prepared_calls.h"
#include "comm/guard/guard.h"
#include "comm/guard/records.h"
#include "comm/links/connector.h"
#include "comm/membership/membership.h"
#include "comm/messages/messages.h"
#include "comm/messages/pair_messages.h"
#include "comm/messages/registered_windows.h"
#include "comm/progress/progress.h"
#include "comm/reach/reach.h"
#include "selection/selection.h"
#include "sim/machine_model.h"

namespace horing {

// Hears of the all-reduces for which rates of groups count (kLeastUnequalBytes). It may use the communicator, also to change its choices.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Such a call has ended well, on this rank. What it calls is a part of the call, with its timeout; an error becomes the call's, and sticks.
  virtual Status ended(size_t bytes, int64_t took_ns) = 0;
};

// How a communicator chooses algorithms, and how it waits. Equal on all ranks, except the waiting.
struct Choices {
  SelectionTable table;
  // For logs: where a kept table was found; empty: it was not found but built in or predicted.
  std::string found_at{};
  std::optional<MachineModel> machine;  // the cost model of the machine, if it was measured
  WaitPolicy wait;
  std::vector<double> rates = {};  // as SelectionGround::rates
};

// A resource. Used by one thread at a time, except membership() and functions marked "Any thread".
class Communicator {
 public:
  // Collective; returns when all ranks have arrived and introduced themselves, or at the deadline.
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // The ranks, and the control plane between them.
  const Membership& membership() const { return *membership_; }
  // Memory that peers access in place.
  Reach& reach() const { return *reach_; }
  // The records of its calls.
  Records& records() { return *records_; }
  // Sends and receives.
  Messages& messages() { return *messages_; }
  // Memory that the other ranks put into.
  RegisteredWindows& windows() { return *windows_; }

  // Returns when the output is complete. Errors after the first message are sticky.
  Status run(const Call& call);
  // An all-gather of small blobs (kMaxGatherBytes at most) through the control plane; the result is indexed by rank. Collective: all ranks
  // make their calls in the same order. Errors stick.
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine,
                                                        std::string_view what = {});
  // As Membership::bootstrap(), while no call runs.
  Result<Membership::Bootstrap> bootstrap(std::span<const int> members);

  // Shuts down in good order. Later calls are refused; a second leave() does nothing.
  Status leave();
  // As leave(), but returns the sticky error; a second call is refused.
  Status finalize();
  // Any thread: makes the running call and every later call fail. Returns when no call is running.
  void abort() { guard_->abort(); }
  // Any thread: the sticky error; checks the control plane for news unless another thread is inside.
  Status asyncError() { return guard_->asyncError(); }
  // For a step before a call that failed with `why`: the error sticks and is announced to the other ranks. Returns the sticky error, or
  // `why` while another thread is in a call, which then fails.
  Status breakOff(Status why) { return guard_->breakOff(std::move(why)); }

  // The timeout of an operation: HORING_TIMEOUT_MS, or a later setting. Any thread.
  int64_t timeoutMs() const { return timeout_ms_.load(std::memory_order_relaxed); }
  void setTimeoutMs(int64_t timeout_ms) { timeout_ms_.store(timeout_ms, std::memory_order_relaxed); }
  // Replaces the choices. Not while a call runs; with the same table on every rank.
  void choose(Choices choices);
  // Any thread. A call may change them (CallObserver).
  Choices choices() const;
  // Null: nobody. Not while a call runs; on every rank.
  void observeCalls(std::unique_ptr<CallObserver> observer);
  bool isObserved() const { return has_observer_.load(std::memory_order_relaxed); }
  // Any thread: the selection table applied to these ranks.
  std::shared_ptr<const Selector> selector() const;
  // Any thread: the algorithm that one call asks for, for its spec; see askedAlgorithm().
  Result<const char*> askedAlgorithm(std::string_view text, Collective collective) const;
  // Any thread. While a call runs, the value after links or plans were last made.
  uint64_t memoryBytes() const;

 private:
  Communicator() = default;
  Status initialise(CommunicatorOptions options);
  Status meetOthers(CommunicatorOptions options);
  Status makeLinks();
  void makeParts();
  void makeProgress();
  void makeMessages();

  // The sequence number of a call, its deadline, and how long after its begin that is.
  struct CallContext {
    uint64_t sequence;
    Deadline deadline;
    int64_t timeout_ms;
  };
  Status runOne(const Call& call);
  // As runOne(), then tells the observer.
  Status runObserved(const Call& call, size_t bytes);
  // Errors: kInvalidArgument, as for findBufferRules().
  Result<PreparedCall*> prepare(const CallSpec& spec);
  // runPlanned: by a plan over links. runOnPeerBuffers: by a plan that accesses buffers of peers. askPeersAndRun: on peer buffers if all
  // ranks can, else over links. runByBestPath: the latter if `asks`, else over links.
  Status runPlanned(const Selection& selection, const Call& call, const CallContext& context);
  Status runOnPeerBuffers(const Selection& selection, const Call& call, const CallContext& context);
  Status askPeersAndRun(const PreparedCall& prepared, const Call& call, const CallContext& context);
  Status runByBestPath(PreparedCall& prepared, const Call& call, const CallContext& context, bool asks);
  Status driveToEnd(const PlannedOperation& planned, const CallContext& context);
  Status connect(PlannedOperation& planned, const CallContext& context);
  void sayGoodbye();
  // Called by the thread inside.
  void noteMemory() const;

  // The control thread uses the first two until the membership ends.
  SteadyClock clock_;
  std::unique_ptr<Records> records_;
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Reach> reach_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<PairMessages> untagged_messages_;
  std::unique_ptr<PairMessages> messages_beside_;  // with tags, puts and signals
  std::unique_ptr<PairMessages> measurement_messages_;
  std::unique_ptr<Progress> progress_;
  std::optional<Messages> messages_;
  std::optional<RegisteredWindows> windows_;
  // Other threads read the choices and the selector; the thread that is inside writes them.
  mutable std::mutex choices_mutex_;
  Choices choices_;
  std::unique_ptr<CallObserver> observer_;
  std::atomic<bool> has_observer_{false};  // for a thread that is not inside yet
  std::shared_ptr<const Selector> selector_;
  PreparedCalls prepared_;
  std::atomic<int64_t> timeout_ms_{0};
  uint64_t sequence_ = 0;
  mutable std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
