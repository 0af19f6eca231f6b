#pragma once
// A rank's end of a communicator: who talks to whom, which plan, when.
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/fork_guard.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/calls/planner.h"
#include "comm/calls/prepared_calls.h"
#include "comm/guard/guard.h"
#include "comm/guard/timeline.h"
#include "comm/links/connector.h"
#include "comm/links/transport_reach.h"
#include "comm/membership/job.h"
#include "comm/progress/progress.h"
#include "comm/reach/buffer_users.h"
#include "comm/reach/lent_buffers.h"
#include "comm/reach/peer_buffers.h"
#include "comm/reach/registrations.h"
#include "control/call_log.h"
#include "control/control.h"
#include "control/root_service.h"
#include "control/unique_id.h"
#include "engine/host/point_to_point.h"
#include "sim/machine_model.h"

namespace horing {

class CudaDevice;
class GpuTeam;
class LoopbackHub;
struct TransportRequest;
namespace verbs {
struct Library;
}

struct CommunicatorOptions {
  Config config;
  UniqueId id;
  int rank = 0;
  int ranks = 1;
  // As in JoinOptions.
  bool root_was_open = false;
  // Set when all ranks live in this process: they then talk through it instead of shm or sockets.
  std::shared_ptr<LoopbackHub> hub;
  // PCI address of the GPU that this rank computes on, for the job's map; empty: none, or nobody knows.
  std::string gpu_bus{};
  // The GPU that was current on the thread that asked for it; of a child, the one that its parent works on, if any. Null: there is none.
  std::shared_ptr<const CudaDevice> gpu{};
  // The GPUs of these ranks. Null: operations on GPUs go through memory of the host.
  std::shared_ptr<GpuTeam> gpus{};
  // Of the adapters; must outlive the communicator. Null: that of this machine.
  const verbs::Library* verbs = nullptr;
  // Memory of this process that others can map; must outlive the communicator. Null: there is none.
  SegmentList* segments = nullptr;
  // For descriptions and log lines; may be empty.
  std::string name;
  // Whether those who make it, and communicators out of it, wait until that is done.
  bool blocking = true;
  // What the machine costs, if a communicator that this one comes of knows; the same on all ranks. Nothing: HORING_CALIBRATE says.
  std::optional<MachineModel> machine;
  // Comes of another communicator: only the first of a job is measured where nothing is kept (HORING_CALIBRATE=auto).
  bool is_child = false;
  // Set from any thread: the communicator, or the making of it, ends with an error. Null: it has one of its own.
  std::shared_ptr<std::atomic<bool>> aborted{};
  // Where to put the rank that the error is about when the communicator cannot be made; untouched if it is about no one rank.
  // Null: nowhere.
  int* failed_rank = nullptr;
};

// A resource. One thread drives it; abort(), asyncError() and the const members that say so may be called
// from others.
class Communicator {
 public:
  // Collective; returns when all ranks have arrived and know each other, or at the deadline.
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

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
  // The same while another thread may be in a call, for so long at most: one at a time among these and allGather(), and only the
  // control plane's errors stick.
  Result<std::vector<std::vector<std::byte>>> exchangeFacts(std::span<const std::byte> mine,
                                                            int64_t timeout_ms);
  // Transports beside those of this communicator, for a thread of their own. Their ends have to be made for the same purpose.
  Result<std::vector<std::unique_ptr<Transport>>> makeOtherTransports(const std::string& purpose) const;
  // Any thread: this rank cannot go on, and the others hear so.
  void announce(const Status& why) { control_->announceError(why); }
  // Some of the ranks meet anew, `members` ascending, this one among them: the first hosts. Collective over them, whatever
  // has become of the others and of this communicator. In what comes of it, members[i] is rank i.
  struct Meeting {
    std::unique_ptr<RootService> root;  // on the host
    std::unique_ptr<Control> control;
  };
  Result<Meeting> meet(std::span<const int> members);
  // leave(), but returns the error that sticks; refuses to do so twice.
  Status finalize();
  // Ends it in good order. Later calls are refused; nothing happens when it has left already.
  Status leave();
  // Something that this rank was to do before a call can begin failed for `why`: sticks, and the others hear of it. Returns the error
  // that sticks; `why` while another thread is in a call, which ends for it.
  Status breakOff(Status why) { return guard_->breakOff(std::move(why)); }
  // Any thread: as horingCommRegister and horingCommDeregister. Null: that gains nothing. `gpu`: whose memory it is; null: the host's.
  Result<void*> registerMemory(std::byte* memory, size_t bytes, const CudaDevice* gpu = nullptr);
  Status deregister(const void* handle);
  // Any thread: whether a transfer of a GPU's memory can do without the host's: that is registered, and lent to what reaches the peer.
  bool movesInPlace(const Transfer& transfer) const;
  // Any thread: makes a running and every later call fail. Returns when no call is running.
  void abort() { guard_->abort(); }
  // Any thread: the sticky error, with news from the control plane if nobody else is looking.
  Status asyncError() { return guard_->asyncError(); }
  // Any thread: the rank that the control plane's news are about, -1 if there are none or they are about no one rank.
  int failedRank() const { return control_->failedRank(); }

  // Constant, any thread.
  int rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }
  // The same on every rank, and on those of no other communicator.
  const JobId& id() const { return id_; }
  // The ranks.
  const Job& job() const { return *job_; }
  const CommunicatorOptions& options() const { return options_; }
  // Of an operation, HORING_TIMEOUT_MS or what was set since. Any thread.
  int64_t timeoutMs() const { return timeout_ms_.load(std::memory_order_relaxed); }
  void setTimeoutMs(int64_t timeout_ms) { timeout_ms_.store(timeout_ms, std::memory_order_relaxed); }
  // What HORING_CALIBRATE says, of this communicator or one that it comes of; nothing where it is 0.
  const std::optional<MachineModel>& machine() const { return options_.machine; }
  // While it is made.
  void setMachine(const MachineModel& machine) { options_.machine = machine; }
  // By which it reaches another rank.
  const char* transportTo(int rank) const;
  const Log& log() const { return log_; }
  // Of the kernels of whoever launches some. Any thread.
  CallLog& launches() { return guard_->launches(); }
  // Null unless HORING_TRACE is set.
  Timeline* timeline() { return timeline_.get(); }
  Control& control() { return *control_; }
  // Set by abort().
  const std::atomic<bool>& aborted() const { return aborted_; }
  // What serves a call where no rank reads the input of another.
  const Selection& selectionFor(const CallSpec& spec) const;
  bool isForkedChild() const { return fork_guard_.isForkedChild(); }

  // Not while a call runs.
  const WaitPolicy& waitPolicy() const { return progress_->waitPolicy(); }
  void setWaitPolicy(const WaitPolicy& policy) { progress_->setWaitPolicy(policy); }
  // Not while a call runs, and the same on every rank: from now on this table chooses.
  // `found_at`: for people, where it was found; empty: it was not.
  void chooseBy(SelectionTable table, std::string found_at = "");
  // Any thread. While a call is inside: as of when links or plans were made last.
  uint64_t memoryBytes() const;
  // Over RDMA, by this rank.
  DataMoved dataMoved() const { return connector_->dataMoved(); }
  std::string describe() const;
  void logWhoIsWhere() const;

 private:
  explicit Communicator(CommunicatorOptions options);
  Status initialise();
  std::string settingsText() const;
  // How this rank would host a meeting.
  Result<RootOptions> meetingOptions() const;
  std::vector<std::byte> reserveMeetingPlace();
  Result<Job::Ranks> exchangeIdentities(const Fragment& place, Deadline deadline);
  Result<Job::Ranks> decodePeers(const std::vector<std::vector<std::byte>>& blobs);
  Status agreeOnTransports(Job::Ranks ranks, Deadline deadline);
  size_t shmTransport() const;  // its index, or the number of transports
  bool sharesMemory(const TransportReach& reach) const;
  Selector makeSelector() const;
  Status makeProgress();
  TransportRequest transportRequest(const Fragment& place) const;
  void watchSegments();
  std::string jobName() const;
  void keepRecords();
  void writeTimeline() const;

  // The number of a call, and the time that it has.
  struct Turn {
    uint64_t sequence;
    Deadline deadline;
  };
  // Errors: kInvalidArgument, as findBufferRules().
  Result<PreparedCall*> prepare(const CallSpec& spec);
  // `may_write`: also for the outputs.
  Result<ReachableBuffers> askForBuffers(const Call& call, bool may_write, const Turn& turn);
  // By a plan of this algorithm, over links; where it reaches for buffers of peers; whatever may, if peers say so, else over links.
  Status runPlanned(const Selection& selection, const Call& call, const Turn& turn);
  Status runOnPeerBuffers(const Selection& selection, const Call& call, const Turn& turn);
  Status askPeersAndRun(const PreparedCall& prepared, const Call& call, const Turn& turn);
  Status runByBestPath(PreparedCall& prepared, const Call& call, const Turn& turn, bool asks);
  size_t bytesIn(ChunkSet set, const CallSpec& spec) const;
  Status driveToEnd(const PlannedOperation& planned, const Turn& turn);
  Status connect(PlannedOperation& planned, const Turn& turn);
  void sayGoodbye();
  // By who is inside.
  void noteMemory() const;

  CommunicatorOptions options_;
  std::atomic<int64_t> timeout_ms_;
  JobId id_{};
  std::shared_ptr<BufferUsers> buffer_users_;
  Log log_;
  SteadyClock clock_;
  ForkGuard fork_guard_;
  std::atomic<bool>& aborted_;    // of the options
  std::unique_ptr<Guard> guard_;  // its logs answer the questions of control_, whose thread ends first
  std::unique_ptr<Control> control_;
  std::unique_ptr<Timeline> timeline_;  // null unless HORING_TRACE is set
  std::unique_ptr<Connector> connector_;
  Registrations registrations_;
  std::unique_ptr<SegmentList::Watcher> freed_segments_;  // tells the connector
  std::unique_ptr<LentBuffers> lent_;
  std::optional<const Job> job_;          // once the ranks know each other
  std::optional<ReservedRoot> reserved_;  // where this rank would host a meeting; nothing if it cannot
  std::vector<std::optional<UniqueId>> meeting_places_;  // by rank
  SelectionTable selection_table_;
  std::string table_from_;  // see chooseBy()
  std::unique_ptr<Selector> selector_;
  bool shares_memory_ = false;  // every rank has opened that of every other
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<PeerConnections> pairs_;
  std::unique_ptr<PointToPoint> point_to_point_;
  std::unique_ptr<PeerConnections> tagged_pairs_;
  std::unique_ptr<PointToPoint> tagged_messages_;
  std::unique_ptr<PeerBuffers> peer_buffers_;  // null where no memory is shared
  std::unique_ptr<Progress> progress_;
  PreparedCalls prepared_;
  uint64_t sequence_ = 0;
  mutable std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
