#pragma once
// A rank's end of a communicator: it owns the parts, prepares calls, and runs them.
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "comm/calls/planner.h"
#include "comm/calls/prepared_calls.h"
#include "comm/guard/guard.h"
#include "comm/guard/records.h"
#include "comm/links/connector.h"
#include "comm/membership/membership.h"
#include "comm/progress/pair_messages.h"
#include "comm/progress/progress.h"
#include "comm/reach/reach.h"
#include "comm/reach/registered_windows.h"
#include "selection/selection.h"
#include "sim/machine_model.h"

namespace horing {

// How a communicator chooses algorithms, and how it waits. Equal on all ranks, except the waiting.
struct Choices {
  SelectionTable table;
  // For logs: where a kept table was found; empty: it was not found but built in or predicted.
  std::string found_at{};
  std::optional<MachineModel> machine;  // the cost model of the machine, if it was measured
  WaitPolicy wait;
  Shares shares = {};  // empty unless the links of groups differ in speed (selection/group_shares.h)
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
  Reach& reach() { return *reach_; }
  const Reach& reach() const { return *reach_; }
  // The records of its calls.
  Records& records() { return *records_; }

  // Returns when the output is complete. Errors after the first message are sticky.
  Status run(const Call& call);
  // Runs all sends and receives of a group concurrently. Returns when all receives are complete and all sends are in flight.
  Status exchange(std::span<const Transfer> transfers);
  // Any thread, once: sets the source of messages with tags, which progress beside other operations. `source` must outlive the operations.
  void setMessages(MessageSource& source) { progress_->setMessages(source); }
  // Drives messages with tags alone, until none is in flight or the source wants the thread back. After an error, which sticks, all
  // unfinished messages have failed. Returns nothing if another thread is in the communicator.
  std::optional<Status> driveMessages();
  // An all-gather of small blobs (kMaxGatherBytes at most) through the control plane; the result is indexed by rank. Collective: all ranks
  // make their calls in the same order. Errors stick.
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine,
                                                        std::string_view what = {});
  // Lets the other ranks put into this memory of the host; null: memory that they cannot put into. Returns the handle of a window, null if
  // they cannot put into the memory of some rank. Collective, as allGather(). Errors stick.
  Result<void*> openWindow(std::byte* memory, size_t bytes);
  // Ends a window here: takes the puts that have arrived, then the memory is written no more. Not collective. kInvalidUsage, which sticks:
  // a put into it is arriving.
  Status closeWindow(const void* handle);
  // Any thread.
  const RegisteredWindows& windows() const { return windows_; }
  // As Membership::meet(), while no call runs.
  Result<Membership::Meeting> meet(std::span<const int> members);

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
  const Choices& choices() const { return choices_; }
  // The selection table applied to these ranks.
  const Selector& selector() const { return *selector_; }
  // Any thread. While a call runs, the value after links or plans were last made.
  uint64_t memoryBytes() const;

 private:
  Communicator() = default;
  Status initialise(CommunicatorOptions options);
  Status meetOthers(CommunicatorOptions options);
  Status makeLinks();
  void makeParts();
  void makeProgress();

  // The sequence number and the deadline of a call.
  struct CallContext {
    uint64_t sequence;
    Deadline deadline;
  };
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
  // The steps of openWindow(). listenToAll: begins links to all ranks, and takes their puts. agreeOnWindow: the sizes on all ranks.
  Status listenToAll(const Window& window, size_t bytes);
  Result<std::vector<uint64_t>> agreeOnWindow(const Window& window, size_t bytes);
  Status connectAll();
  LinkSet linksToAll() const;
  Status close(const Window& window);
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
  std::unique_ptr<PairMessages> messages_;
  std::unique_ptr<PairMessages> tagged_messages_;  // also puts and signals
  RegisteredWindows windows_;
  uint64_t last_window_ = 0;
  std::unique_ptr<Progress> progress_;
  Choices choices_;
  std::unique_ptr<Selector> selector_;
  PreparedCalls prepared_;
  std::atomic<int64_t> timeout_ms_{0};
  uint64_t sequence_ = 0;
  mutable std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
