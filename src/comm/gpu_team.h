#pragma once
// The ranks of a communicator, each on a GPU: what their kernels share, and whether kernels can serve them at all. The ranks are
// threads of one process, or each is one of its own (comm/remote_gpus.h).
//
// Between threads nothing is exchanged: whoever comes first makes it for all ranks, and what one finds out holds for all. Queues
// and plans of a rank lie on its GPU, in memory that is taken once.
//
// Ranks that share a GPU are served by one launch, made by the last of them that calls: kernels of their own would wait for each
// other behind streams that may share a queue of the hardware, and never end. So each of these calls returns when all of them
// have been made; the calls of one thread for several ranks belong into a group. The same holds for large all-gathers, which are
// copies between GPUs (comm/gpu_copies.cpp).
#include <array>
#include <atomic>
#include <compare>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/cuda_device.h"
#include "base/log.h"
#include "comm/remote_gpus.h"
#include "control/replay_number.h"
#include "control/unique_id.h"
#include "engine/cuda/bound_plan.h"
#include "engine/cuda/lane_gpu.h"
#include "engine/cuda/queue_shape.h"
#include "selection/selection.h"
#include "topology/group_map.h"

namespace horing {

// How long a rank waits for the others of its process, on the host.
struct GpuPatience {
  Deadline deadline;
  // Not ok: there is nothing to wait for any more. Asked now and then.
  std::function<Status()> news;
};

// What a rank launches.
struct GpuLaunch {
  int rank = 0;
  cuda::LaneCall call;
  int32_t lanes = 1;
  // Of the caller's buffers; of premulsum, the scalar.
  std::span<const std::byte> reads, writes, scalar;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  CudaStream stream = nullptr;
  bool is_recorded = false;  // into a graph
  bool is_copied = false;    // an all-gather of `reads`; of the call there are its number and its output
};

// Shared by the ranks. Any thread, but one at a time for each rank.
class GpuTeam {
 public:
  // The plans of one operation of all ranks, by position, null for those of other processes; none: kernels cannot serve it.
  using Plans = std::vector<std::unique_ptr<cuda::BoundPlan>>;

  explicit GpuTeam(int ranks) : ranks_(static_cast<size_t>(ranks)) {}
  // All but one rank are of other processes, which must make a team alike.
  GpuTeam(int ranks, std::unique_ptr<RemoteGpus> remote)
      : ranks_(static_cast<size_t>(ranks)), remote_(std::move(remote)) {}
  // A team of some of the ranks, for a communicator of theirs: the same for all that ask with the same name, while one of them
  // holds it.
  std::shared_ptr<GpuTeam> branch(const JobId& name, int ranks);
  // Waits a second for kernels to end, and another when told to; then leaves their memory where it is.
  ~GpuTeam();
  GpuTeam(const GpuTeam&) = delete;
  GpuTeam& operator=(const GpuTeam&) = delete;

  // The rank works on that GPU. Does not wait.
  void arrive(int rank, std::shared_ptr<const CudaDevice> device);
  // Waits until all ranks have arrived; then whether kernels serve them, the same for all. The log tells why not.
  struct Member {
    int rank;
    const Config& config;
    const GroupMap& map;
    const Log& log;
    std::function<Status()> news{};  // what has ended the communicator, or its kernels; any thread
  };
  Result<bool> serves(const Member& member, const GpuPatience& patience);

  // Whether an all-gather of so many bytes from each rank is to be copied, by all ranks, unless it is recorded into a graph.
  bool copies(uint64_t bytes) const;
  // Made when first asked for. Null: kernels cannot serve it, and the log tells why.
  Result<const Plans*> plans(Collective collective, const Selection& selection, int root);

  // Whether the stream records a graph. kInvalidUsage: this rank's launches cannot be part of one.
  Result<bool> isRecorded(int rank, CudaStream stream);
  // kInvalidUsage: the thread of another rank may launch it, and cudaStreamPerThread is another stream there. Before enter().
  Status checkThread(const GpuLaunch& launch);
  // Three steps, for ranks of one thread and for launches that go together: each rank enters what it has, ...
  Status enter(GpuLaunch launch);
  // ... puts it on its streams, in as few launches as can be, ... Errors: the driver's; kInvalidUsage: ranks that share the GPU
  // launch different things.
  Status start(int rank);
  // ... and waits until it is on its way.
  Status await(int rank, const GpuPatience& patience);
  // Of what this rank has entered, the number of the first that is not on its way. After an error of the two.
  uint64_t firstWaiting(int rank);
  // Not while the stream records a graph: a stream of this rank for calls that are complete on return.
  Result<CudaStream> ownStream(int rank);

  // Ends all kernels of all ranks.
  void abort();
  // What kernels that gave up left; ok: none did. `launch`: its number, as its LaneCall has it.
  struct Ended {
    Status status;
    uint64_t launch = 0;
    std::optional<ReplayNumber> replay{};  // where a graph replayed it
  };
  Ended outcome();
  // How often the kernels of this rank have run what graphs replay, as they tell, of every part of a plan that has run. Any thread.
  std::vector<ReplayRuns> replayRuns(int rank) const;
  // How many of this rank's launches its GPU has done; of many at a time not the latest. Error: the GPU's.
  Result<uint64_t> done(int rank);
  // The ranks of this process that have launched less than this one.
  std::vector<int> behind(int rank) const;
  // On this rank's GPU.
  uint64_t memoryBytes(int rank);

 private:
  static constexpr uint64_t kMarks = 16;
  struct Rank {
    std::shared_ptr<const CudaDevice> device;
    std::unique_ptr<cuda::Memory> memory;
    std::unique_ptr<cuda::Memory>
        told;                    // where its plans tell of their runs, unless `remote_` has a place for that
    size_t gpu = 0;              // in gpus_
    CudaEvent called = nullptr;  // behind what its stream had to do before a shared launch
    CudaStream own = nullptr;    // see ownStream()
    // Under the mutex of its GPU: what it has entered, the first `started` of which may be launched when the other ranks of the
    // GPU have come to them.
    std::deque<GpuLaunch> waiting;
    size_t started = 0;
    uint64_t parts_entered = 0;  // of calls so far, the same on every rank: where the parts of the next begin
    std::atomic<uint64_t> entered = 0;  // launches; written under the mutex of its GPU, any thread may ask
  };
  struct Gpu {
    explicit Gpu(const std::shared_ptr<const CudaDevice>& device)
        : shared(cuda::LaneGpu::of(device)), lanes(*shared) {}
    const std::shared_ptr<cuda::LaneGpu> shared;
    cuda::LaneGpu& lanes;
    std::vector<int> ranks;
    int resident_blocks = 0;
    // Behind the latest launches, in turn.
    struct Mark {
      CudaEvent done = nullptr;
      uint64_t launches = 0;
    };
    std::array<Mark, kMarks> marks{};
    // Behind all launches so far.
    CudaEvent latest() const { return marks[(marked - 1) % kMarks].done; }
    // Of its ranks alone: a launch may wait for room, and kernels for those of other GPUs. Copies take all of them.
    std::mutex mutex;
    std::condition_variable launched;
    uint64_t launches = 0;     // under mutex, as what waits for one; so is what follows
    uint64_t marked = kMarks;  // as often as marks were set
    uint64_t looked = 0;       // how many of them have been seen
    uint64_t ended = 0;        // launches, by these
    Status failed;
  };
  enum class State { kGathering, kKernels, kStaged };
  class Ports;

  Gpu& gpuOf(Rank& rank);
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool isHere(int rank) const { return !remote_ || rank == remote_->rank(); }
  const CudaDevice& anyDevice() const;
  std::vector<int> missing() const;
  void stage(const Member& member, const Status& why);
  // Under mutex_.
  Status setUp();
  Status setUpGpus();
  Status setUpMemory();
  void chooseShape();
  void adopt(const GpuTerms& terms);
  Result<Plans> makePlans(Collective collective, const Selection& selection, int root);
  // Gives back what was taken for the plan at hand, which is none after all: all that each rank has used since.
  struct Used {
    size_t memory, told;
  };
  Status undoPlans(const std::vector<Used>& used);
  Result<cuda::Activity*> makeActivity(int rank, size_t blocks);
  int32_t partsFor(const std::vector<Schedule>& schedules) const;
  // A queue between two ranks, or two lanes of one: each end lies with its rank.
  struct QueueName {
    int sender;
    int receiver;
    int32_t channel;  // from kLinkChannels on: of a scratch queue
    int32_t part;
    auto operator<=>(const QueueName&) const = default;
  };
  struct QueueEnds {
    cuda::Port* send;
    cuda::Port* receive;
  };
  Result<QueueEnds> queue(const QueueName& name);
  Result<QueueEnds> makeRemoteQueue(const QueueName& name);
  Result<cuda::Port*> place(int rank, const cuda::Port& port);
  // As far as it can be done without other GPUs. True: what comes next are copies, in which they take part.
  bool launchUpToCopies(Gpu& gpu);
  // Why the rank's first launch that waits, behind so many that its GPU has been given, is not on its way.
  Status overdue(int rank, uint64_t launched, bool is_copied);
  // Under the mutex of the GPU.
  bool mayLaunch(const Gpu& gpu) const;
  bool copiesAreNext(const Gpu& gpu) const;
  Status checkAgreement(const std::vector<int>& ranks) const;
  bool joins(const Gpu& gpu, size_t index) const;
  // So many have been launched for each of its ranks.
  void pop(const Gpu& gpu, size_t count);
  Status launchNext(Gpu& gpu);
  Status orderBefore(Gpu& gpu, CudaStream stream);
  Status orderAfter(Gpu& gpu, CudaStream stream);
  static Status mark(Gpu& gpu, CudaStream stream);
  // Where its next launch goes.
  CudaStream nextStream(const Gpu& gpu) const { return at(gpu.ranks.front()).waiting.front().stream; }
  // See comm/gpu_copies.cpp. False: not all ranks have come to copies, or they failed.
  bool copyNext();
  // Under the mutexes of all GPUs: one all-gather, ...
  Status copyBlocks();
  // ... before and behind which every GPU's stream waits for all, ...
  Status meet();
  // ... and this rank's part of it.
  Status pushBlock(int rank);
  void release();

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kGathering;
  // Of whoever set it up.
  Config config_;
  std::optional<GroupMap> map_;
  Log log_;
  std::vector<Rank> ranks_;             // those of other processes are empty
  std::unique_ptr<RemoteGpus> remote_;  // null: all are of this one
  int most_blocks_ = 0;                 // of a rank's kernel
  int resident_blocks_ = 0;             // where there is `remote_`
  std::vector<std::unique_ptr<Gpu>> gpus_;
  PinnedMemory flags_;
  std::atomic<uint32_t*> abort_ = nullptr;  // in flags_; release and acquire, for any thread may ask
  cuda::BoundPlanSettings settings_;
  cuda::QueueShape shape_;
  std::vector<int32_t> rank_of_position_;
  std::map<QueueName, QueueEnds> queues_;
  std::vector<QueueName> queues_of_plan_;  // made for the plan at hand
  using PlanKey = std::array<int, 3>;      // collective, place in the catalogue, root
  std::map<PlanKey, Plans> plans_;
  mutable std::mutex
      made_mutex_;  // of the next alone, for mutex_ may be held while ranks wait for each other
  std::map<PlanKey, const Plans*> made_;
  std::map<JobId, std::weak_ptr<GpuTeam>> branches_;
};

}  // namespace horing
