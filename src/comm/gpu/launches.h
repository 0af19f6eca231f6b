#pragma once
// What the ranks of a team (comm/gpu/team.h) that are threads of this process put on their GPUs: in which order, in how few launches,
// and how far the GPUs have come with it.
//
// Ranks that share a GPU are served by one launch, made by the last of them that calls: kernels of their own would wait for each
// other behind streams that may share a queue of the hardware, and never end. So each of these calls returns when all of them
// have been made; the calls of one thread for several ranks belong into a group. The same holds for large all-gathers, which are
// copies between GPUs (comm/gpu/copies.cpp).
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cuda/device.h"
#include "engine/cuda/lane_gpu.h"

namespace horing {

class RemoteGpus;

// How long a rank waits for the others of its process, on the host.
struct GpuPatience {
  Deadline deadline;
  // Not ok: there is nothing to wait for any more. Asked now and then.
  std::function<Status()> news;
};

// Messages of a rank that has a GPU of its own.
struct GpuExchange {
  std::vector<cuda::ExchangeCall> kernels;  // one after the other
  struct Copy {
    std::byte* to;
    std::span<const std::byte> from;
  };
  std::vector<Copy> to_self;
  // Comes behind what is on these streams, too, and before what comes there later, unless they are told to follow() it.
  std::vector<CudaStream> others;
  bool is_followed_later = false;
};

// What a rank launches.
struct GpuLaunch {
  int rank = 0;
  std::shared_ptr<const GpuExchange> exchange{};  // if any, this is all, and of the call there is its number
  cuda::LaneCall call;
  int32_t lanes = 1;
  // Of the caller's buffers; of premulsum, the scalar.
  std::span<const std::byte> reads, writes, scalar;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  CudaStream stream = nullptr;
  uint64_t graph = 0;      // that records it (CudaDevice::recordedGraph()); 0: none
  bool is_pinned = false;  // some of its buffers are memory of the host
  bool is_copied = false;  // an all-gather of `reads`; of the call there are its number and its output

  bool isRecorded() const { return graph != 0; }
};

// From setUp() to release(): any thread, but one at a time for each rank; done() and behind() beside it.
class GpuLaunches {
 public:
  // `remote`: has the other ranks, which are of other processes; null: all are of this one. Must outlive what is launched.
  GpuLaunches(int ranks, RemoteGpus* remote) : ranks_(static_cast<size_t>(ranks)), remote_(remote) {}
  GpuLaunches(const GpuLaunches&) = delete;
  GpuLaunches& operator=(const GpuLaunches&) = delete;

  // --- Under the mutex of the team.
  // The kernels, for a rank's GPU. Error: there are none for it.
  Status load(int rank, const std::shared_ptr<const CudaDevice>& device);
  // By rank; null: of another process. Errors: kInvalidUsage where more share a GPU than a launch serves; as load(); the driver's.
  Status setUp(const std::vector<std::shared_ptr<const CudaDevice>>& devices);
  // Blocks that are resident at once, for each rank of the GPU that has the fewest.
  int residentBlocks() const;
  // So one launch serves all ranks, by rank, and begins and ends for all at once.
  bool isOneLaunch() const { return gpus_.size() == 1 && ranks_.size() > 1 && !remote_; }
  // Of one of the GPUs; null: there is none yet.
  std::shared_ptr<const CudaDevice> anyDevice() const;
  // Waits a second for all that was launched, and another when `abort` was called. False: something still holds a stream up.
  bool awaitEnd(const std::function<void()>& abort);
  void release();
  // Leaves everything where it is, for kernels that have not ended.
  void leak();

  // --- Before a launch.
  // See CudaDevice. kInvalidUsage: this rank's launches cannot be part of a graph.
  Result<uint64_t> recordedGraph(int rank, CudaStream stream);
  // More than one rank on any of them.
  bool sharesGpus() const;
  // kInvalidUsage: the thread of another rank may launch it, and cudaStreamPerThread is another stream there.
  Status checkThread(const GpuLaunch& launch);
  // A stream of this rank, not to be recorded; and behind what the default stream was told, for calls that are complete on return.
  CudaStream sideStream(int rank) { return at(rank).own; }
  Result<CudaStream> ownStream(int rank);

  // --- Three steps, for ranks of one thread and for launches that go together: each rank enters what it has, ...
  Status enter(GpuLaunch launch);
  // ... puts it on its streams, in as few launches as can be, ... Errors: the driver's; kInvalidUsage: ranks that share the GPU
  // launch different things.
  Status start(int rank);
  // ... and waits until it is on its way.
  Status await(int rank, const GpuPatience& patience);
  // What comes on these streams is behind all of that.
  Status follow(int rank, std::span<const CudaStream> streams);

  // --- And then.
  // Of what this rank has entered, the number of the first that is not on its way; kNoCall: it is one of messages. After an error of
  // the three.
  uint64_t firstWaiting(int rank);
  // How many of this rank's launches its GPU has done; of many at a time not the latest. Error: the GPU's.
  struct Done {
    uint64_t calls = 0;     // those that all ranks make, ...
    uint64_t messages = 0;  // ... and those of sends and receives, but for what was recorded
  };
  Result<Done> done(int rank);
  // The ranks of this process that have launched fewer of the calls that all make than this one.
  std::vector<int> behind(int rank) const;

 private:
  static constexpr uint64_t kMarks = 16;
  struct Rank {
    std::shared_ptr<const CudaDevice> device;  // null: of another process
    size_t gpu = 0;                            // in gpus_
    CudaEvent called = nullptr;                // behind what its stream had to do before a shared launch
    CudaStream own = nullptr;                  // see ownStream()
    // Under the mutex of its GPU: what it has entered, the first `started` of which may be launched when the other ranks of the
    // GPU have come to them.
    std::deque<GpuLaunch> waiting;
    size_t started = 0;
    uint64_t parts_entered = 0;  // of calls so far, the same on every rank: where the parts of the next begin
    uint64_t entered = 0;        // launches
    std::atomic<uint64_t> calls_entered = 0;  // of these, calls of all ranks; any thread may ask
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
      Done launched{};
    };
    std::array<Mark, kMarks> marks{};
    // Behind all launches so far.
    CudaEvent latest() const { return marks[(marked - 1) % kMarks].done; }
    // Of its ranks alone: a launch may wait for room, and kernels for those of other GPUs. Copies take all of them.
    std::mutex mutex;
    std::condition_variable launched;
    uint64_t launches = 0;     // under mutex, as what waits for one; so is what follows
    Done launched_so_far;      // of them
    uint64_t marked = kMarks;  // as often as marks were set
    uint64_t looked = 0;       // how many of them have been seen
    Done ended;                // by these
    // The latest launch that was recorded, if in a graph that the driver tells from others.
    uint64_t latest_graph = 0;
    CudaEvent latest_recorded = nullptr;
    Status failed;
  };

  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  Gpu& gpuOf(int rank, const std::shared_ptr<const CudaDevice>& device);
  // As far as it can be done without other GPUs. True: what comes next are copies, in which they take part.
  bool launchUpToCopies(Gpu& gpu);
  // Why the rank's first launch that waits, behind so many calls that its GPU has been given, is not on its way.
  Status overdue(int rank, uint64_t calls, bool is_copied);
  // Under the mutex of the GPU.
  bool mayLaunch(const Gpu& gpu) const;
  bool copiesAreNext(const Gpu& gpu) const;
  Status checkAgreement(const std::vector<int>& ranks) const;
  bool joins(const Gpu& gpu, size_t index) const;
  // So many have been launched for each of its ranks.
  void pop(const Gpu& gpu, size_t count);
  Status launchNext(Gpu& gpu);
  Status launchExchange(Gpu& gpu, const GpuLaunch& launch);
  void tellHost(const GpuLaunch& launch, int32_t blocks);
  static std::vector<int> peersOf(const cuda::ExchangeCall& kernel);
  // Around each launch.
  Status comeBehind(Gpu& gpu, const GpuLaunch& launch);
  Status goAhead(Gpu& gpu, const GpuLaunch& launch);
  Status orderBefore(Gpu& gpu, CudaStream stream);
  Status orderAfter(Gpu& gpu, CudaStream stream);
  static Status mark(Gpu& gpu, CudaStream stream);
  // The same in a graph: behind what it has of this GPU so far, on whatever streams.
  static Status orderBeforeRecorded(Gpu& gpu, const GpuLaunch& launch);
  static Status orderAfterRecorded(Gpu& gpu, const GpuLaunch& launch);
  // Where its next launch goes.
  CudaStream nextStream(const Gpu& gpu) const { return at(gpu.ranks.front()).waiting.front().stream; }
  // See comm/gpu/copies.cpp. False: not all ranks have come to copies, or they failed.
  bool copyNext();
  // Under the mutexes of all GPUs: one all-gather, ...
  Status copyBlocks();
  // ... before and behind which every GPU's stream waits for all, ...
  Status meet();
  // ... and this rank's part of it.
  Status pushBlock(int rank);

  std::vector<Rank> ranks_;
  RemoteGpus* const remote_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
};

}  // namespace horing
