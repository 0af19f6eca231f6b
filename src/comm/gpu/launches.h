#pragma once
// The launches of the ranks of a team (comm/gpu/team.h) that are threads of this process: their order, their merging into few launches, and
// the GPUs' progress.
//
// Ranks that share a GPU are served by one launch, made by the last of these ranks that calls: separate kernels would wait for each other
// on streams that may share a hardware queue, and deadlock. So each of these calls returns when all ranks of the GPU have called; a thread
// that drives several ranks must group their calls. The same holds for large all-gathers, which are copies between GPUs
// (comm/gpu/copies.cpp).
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cuda/device.h"
#include "engine/cuda/lane_gpu.h"

namespace horing {

class RemoteGpus;

// How long a rank waits on the host for the other ranks of its process.
struct GpuWaitLimit {
  Deadline deadline;
  // Polled; not ok: stop waiting.
  std::function<Status()> news;
};

// The messages of a rank that shares its GPU with no other rank.
struct GpuExchange {
  std::vector<cuda::ExchangeCall> kernels;  // in order
  struct Copy {
    std::byte* to;
    std::span<const std::byte> from;
  };
  std::vector<Copy> to_self;
  // Further streams: ordered after their earlier work; later work on them waits only after follow().
  std::vector<CudaStream> others;
  bool is_followed_later = false;
};

// A launch of one rank.
struct GpuLaunch {
  int rank = 0;
  std::shared_ptr<const GpuExchange>
      exchange{};  // if set, the launch is this exchange, and `call` has only its number
  cuda::LaneCall call;
  int32_t lanes = 1;
  // The caller's buffers; for premulsum, the scalar.
  std::span<const std::byte> reads, writes, scalar;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  CudaStream stream = nullptr;
  uint64_t graph = 0;      // the graph that records it (CudaDevice::recordedGraph()); 0: none
  bool is_pinned = false;  // some buffers are host memory
  bool is_copied = false;  // an all-gather of `reads` by copies; `call` has its number and output

  bool isRecorded() const { return graph != 0; }
};

// From setUp() to release(): any thread, one at a time for each rank; done() and behind() concurrently.
class GpuLaunches {
 public:
  // `remote`: the other ranks, which met this one by an ID; null: all ranks share this object. Must outlive the launches.
  GpuLaunches(int ranks, RemoteGpus* remote) : ranks_(static_cast<size_t>(ranks)), remote_(remote) {}
  GpuLaunches(const GpuLaunches&) = delete;
  GpuLaunches& operator=(const GpuLaunches&) = delete;

  // --- Under the mutex of the team. Loads the kernels for a rank's GPU. Error: none for this GPU.
  Status load(int rank, const std::shared_ptr<const CudaDevice>& device);
  // `devices`: by rank; null: a remote rank. Errors: kInvalidUsage if more ranks share a GPU than a launch serves; as for
  // load(); the driver's.
  Status setUp(const std::vector<std::shared_ptr<const CudaDevice>>& devices);
  // The least number of resident blocks per rank, over all GPUs.
  int residentBlocks() const;
  // Whether one launch serves all ranks, and begins and ends for all at once.
  bool isOneLaunch() const { return gpus_.size() == 1 && ranks_.size() > 1 && !remote_; }
  // One of the GPUs; null: none yet.
  std::shared_ptr<const CudaDevice> anyDevice() const;
  // Waits for all launches. If none ends for a second, calls `abort` and waits again. False: a stream is still blocked.
  bool awaitEnd(const std::function<void()>& abort);
  void release();
  // Frees nothing, for kernels that have not ended.
  void leak();

  // --- Before a launch.
  // See CudaDevice. kInvalidUsage: this rank's launches cannot be part of a graph.
  Result<uint64_t> recordedGraph(int rank, CudaStream stream);
  // Whether any GPU has more than one rank.
  bool sharesGpus() const;
  // kInvalidUsage for cudaStreamPerThread if another rank's thread may make the launch, where it is another stream.
  Status checkThread(const GpuLaunch& launch);
  // A stream of this rank that is never recorded. ownStream() also orders it after earlier work on the default stream, for calls that are
  // complete on return.
  CudaStream sideStream(int rank) { return at(rank).own; }
  Result<CudaStream> ownStream(int rank);

  // --- Three steps, for several ranks driven by one thread and for grouped launches: each rank enters its launches, ...
  Status enter(GpuLaunch launch);
  // ... puts them on its streams, in as few launches as possible, ... Errors: the driver's; kInvalidUsage: ranks that share a GPU made
  // different calls.
  Status start(int rank);
  // ... and waits until they are launched.
  Status await(int rank, const GpuWaitLimit& limit);
  // Orders later work on these streams after all launches.
  Status follow(int rank, std::span<const CudaStream> streams);

  // --- Queries. After an error of the three steps: the number of this rank's first entered launch that is not launched; kNoCall: messages.
  uint64_t firstWaiting(int rank);
  // How many of this rank's launches its GPU has finished; may lag behind. Error: the GPU's.
  struct Done {
    uint64_t calls = 0;     // calls of all ranks, ...
    uint64_t messages = 0;  // ... and launches of sends and receives, without recorded ones
  };
  Result<Done> done(int rank);
  // The ranks of this process that have entered fewer calls of all ranks than this rank.
  std::vector<int> behind(int rank) const;

 private:
  static constexpr uint64_t kMarks = 16;
  struct Rank {
    std::shared_ptr<const CudaDevice> device;  // null: a remote rank
    size_t gpu = 0;                            // in gpus_
    CudaEvent called = nullptr;                // recorded on its stream before a shared launch
    CudaStream own = nullptr;                  // see ownStream()
    // Under the mutex of its GPU: the entered launches. The first `started` may be launched once the other ranks of the GPU have reached
    // them.
    std::deque<GpuLaunch> waiting;
    size_t started = 0;
    // Total parts of calls so far, the same on every rank: where the parts of the next call begin.
    uint64_t parts_entered = 0;
    uint64_t entered = 0;                     // launches
    std::atomic<uint64_t> calls_entered = 0;  // of these, calls of all ranks; any thread may read it
  };
  struct Gpu {
    explicit Gpu(const std::shared_ptr<const CudaDevice>& device)
        : shared(cuda::LaneGpu::of(device)), lanes(*shared) {}
    const std::shared_ptr<cuda::LaneGpu> shared;
    cuda::LaneGpu& lanes;
    std::vector<int> ranks;
    int resident_blocks = 0;
    // Events behind the latest launches, used in turns.
    struct Mark {
      CudaEvent done = nullptr;
      Done launched{};
    };
    std::array<Mark, kMarks> marks{};
    // The event behind all launches so far.
    CudaEvent latest() const { return marks[(marked - 1) % kMarks].done; }
    CudaEvent latestOrReplayed() const { return replayed ? replayed : latest(); }
    // One for each GPU: a launch may block for room, and kernels wait for other GPUs. Copies lock all of them.
    std::mutex mutex;
    std::condition_variable launched;
    uint64_t launches = 0;     // under mutex, like the waiting launches and the members below
    Done launched_so_far;      // finished when all are
    uint64_t marked = kMarks;  // number of marks set
    uint64_t looked = 0;       // number of marks seen to be done
    Done ended;                // according to these marks
    // The event behind the latest launch in each graph, if the driver can identify graphs; without those of long ago.
    std::map<uint64_t, CudaEvent> recorded;
    // Behind all launches and replays so far, once a graph has recorded a launch.
    CudaEvent replayed = nullptr;
    Status failed;
  };

  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  Gpu& gpuOf(int rank, const std::shared_ptr<const CudaDevice>& device);
  // Launches up to the next copies, which need other GPUs. True: copies are next.
  bool launchUpToCopies(Gpu& gpu);
  // The error for the rank's first waiting launch, after `calls` calls that its GPU has been given.
  Status overdue(int rank, uint64_t calls, bool is_copied);
  // Under the mutex of the GPU.
  bool mayLaunch(const Gpu& gpu) const;
  bool copiesAreNext(const Gpu& gpu) const;
  Status checkAgreement(const std::vector<int>& ranks) const;
  bool joins(const Gpu& gpu, size_t index) const;
  // Removes `count` launched entries of each of its ranks.
  void pop(const Gpu& gpu, size_t count);
  Status launchNext(Gpu& gpu);
  Status launchExchange(Gpu& gpu, const GpuLaunch& launch);
  void tellHost(const GpuLaunch& launch, int32_t blocks);
  static std::vector<int> peersOf(const cuda::ExchangeCall& kernel);
  // Called around each launch.
  Status comeBehind(Gpu& gpu, const GpuLaunch& launch);
  Status goAhead(Gpu& gpu, const GpuLaunch& launch);
  Status orderBefore(Gpu& gpu, CudaStream stream);
  Status orderAfter(Gpu& gpu, CudaStream stream);
  static Status mark(Gpu& gpu, CudaStream stream);
  // Finds out which launches have ended. Error: the GPU's.
  static Status lookAtMarks(Gpu& gpu);
  static bool awaitEvent(Gpu& gpu, CudaEvent event);
  // The same in a graph: ordered after the graph's earlier launches on this GPU, on any streams, and its replays among other replays and
  // launches.
  Status orderBeforeRecorded(Gpu& gpu, const GpuLaunch& launch);
  static Status orderAfterRecorded(Gpu& gpu, const GpuLaunch& launch);
  Status beginReplays(Gpu& gpu, CudaStream never_recorded);
  static Status beginGraph(Gpu& gpu, uint64_t graph);
  // The stream of the next launch.
  CudaStream nextStream(const Gpu& gpu) const { return at(gpu.ranks.front()).waiting.front().stream; }
  // See comm/gpu/copies.cpp. False: not all ranks have reached the copies, or the copies failed.
  bool copyNext();
  // Under the mutexes of all GPUs: runs one all-gather.
  Status copyBlocks();
  // Makes every GPU's stream wait for all others, before and after the copies.
  Status meet();
  // Enqueues this rank's copies.
  Status pushBlock(int rank);

  std::vector<Rank> ranks_;
  RemoteGpus* const remote_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
};

}  // namespace horing
