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
#include "selection/selection.h"
#include "sim/machine_model.h"

namespace horing {

// By what a communicator chooses algorithms and waits. The same on every rank, but for how it waits.
struct Choices {
  SelectionTable table;
  std::string found_at{};               // for people: where the table was found; empty: it was not
  std::optional<MachineModel> machine;  // what the machine costs, if anybody measured it
  WaitPolicy wait;
};

// A resource. One thread drives it; what is said to be any thread's may be called from others, and so may membership().
class Communicator {
 public:
  // Collective; returns when all ranks have arrived and know each other, or at the deadline.
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Who the ranks are, and the control plane between them.
  const Membership& membership() const { return *membership_; }
  // Memory that others reach.
  Reach& reach() { return *reach_; }
  const Reach& reach() const { return *reach_; }
  // What it did.
  Records& records() { return *records_; }

  // Returns when the output is complete. Errors after the first message are sticky.
  Status run(const Call& call);
  // All sends and receives of a group, at once. Returns when what is received is here and what is sent is on its way.
  Status exchange(std::span<const Transfer> transfers);
  // Any thread, once: where messages with tags come from. They go on beside other operations; it must outlive these.
  void setMessages(MessageSource& source) { progress_->setMessages(source); }
  // Drives those messages alone, until none is under way or their source wants the thread back. After an error, which sticks, those
  // that have not ended have failed.
  // Nothing: another thread is in the communicator.
  std::optional<Status> driveMessages();
  // What each rank gave, by rank: small facts (kMaxGatherBytes at most), through the control plane. Collective, and in the
  // same order everywhere among calls of itself. Errors stick.
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine,
                                                        std::string_view what = {});
  // As Membership::meet(), while no call runs.
  Result<Membership::Meeting> meet(std::span<const int> members);

  // Ends it in good order. Later calls are refused; nothing happens when it has left already.
  Status leave();
  // leave(), but returns the error that sticks; refuses to do so twice.
  Status finalize();
  // Any thread: makes a running and every later call fail. Returns when no call is running.
  void abort() { guard_->abort(); }
  // Any thread: the sticky error, with news from the control plane if nobody else is looking.
  Status asyncError() { return guard_->asyncError(); }
  // Something that this rank was to do before a call can begin failed for `why`: sticks, and the others hear of it. Returns the error
  // that sticks; `why` while another thread is in a call, which ends for it.
  Status breakOff(Status why) { return guard_->breakOff(std::move(why)); }

  // Of an operation, HORING_TIMEOUT_MS or what was set since. Any thread.
  int64_t timeoutMs() const { return timeout_ms_.load(std::memory_order_relaxed); }
  void setTimeoutMs(int64_t timeout_ms) { timeout_ms_.store(timeout_ms, std::memory_order_relaxed); }
  // Not while a call runs, and with the same table on every rank: from now on these count.
  void choose(Choices choices);
  const Choices& choices() const { return choices_; }
  // What the table is for these ranks.
  const Selector& selector() const { return *selector_; }
  // Any thread. While a call is inside: as of when links or plans were made last.
  uint64_t memoryBytes() const;

 private:
  Communicator() = default;
  Status initialise(CommunicatorOptions options);
  Status meetOthers(CommunicatorOptions options);
  Status makeLinks();
  void makeParts();
  Status makeProgress();

  // The number of a call, and the time that it has.
  struct Turn {
    uint64_t sequence;
    Deadline deadline;
  };
  // Errors: kInvalidArgument, as findBufferRules().
  Result<PreparedCall*> prepare(const CallSpec& spec);
  // By a plan of this algorithm, over links; where it reaches for buffers of peers; whatever may, if peers say so, else over links.
  Status runPlanned(const Selection& selection, const Call& call, const Turn& turn);
  Status runOnPeerBuffers(const Selection& selection, const Call& call, const Turn& turn);
  Status askPeersAndRun(const PreparedCall& prepared, const Call& call, const Turn& turn);
  Status runByBestPath(PreparedCall& prepared, const Call& call, const Turn& turn, bool asks);
  Status driveToEnd(const PlannedOperation& planned, const Turn& turn);
  Status connect(PlannedOperation& planned, const Turn& turn);
  void sayGoodbye();
  // By who is inside.
  void noteMemory() const;

  // The thread of the control plane asks the first two until the membership ends.
  SteadyClock clock_;
  std::unique_ptr<Records> records_;
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Reach> reach_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<PairMessages> messages_;
  std::unique_ptr<PairMessages> tagged_messages_;
  std::unique_ptr<Progress> progress_;
  Choices choices_;
  std::unique_ptr<Selector> selector_;
  PreparedCalls prepared_;
  std::atomic<int64_t> timeout_ms_{0};
  uint64_t sequence_ = 0;
  mutable std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
