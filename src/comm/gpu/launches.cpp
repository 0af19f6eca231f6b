#include "comm/gpu/launches.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <set>
#include <thread>
#include <utility>

#include "comm/gpu/remote_gpus.h"
#include "control/rank_list.h"
#include "cuda/outside_of_graphs.h"
#include "engine/cuda/bound_exchange.h"

namespace horing {

namespace {

constexpr std::chrono::milliseconds kLaunchLook{1};
constexpr int64_t kEndMs = 1000;
constexpr size_t kMostGraphs = 64;           // that are recorded at the same time
constexpr unsigned int kOutsideOfGraph = 1;  // CU_EVENT_WAIT_EXTERNAL, CU_EVENT_RECORD_EXTERNAL

bool isCall(const GpuLaunch& launch) {
  return (launch.call.number & ~cuda::kInGraph) != cuda::kNoCall;
}

bool isSame(const GpuLaunch& one, const GpuLaunch& other) {
  return one.is_copied == other.is_copied && one.type == other.type && one.op == other.op &&
         one.call.digest == other.call.digest && (!one.is_copied || one.reads.size() == other.reads.size());
}

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  const auto begin = [](std::span<const std::byte> bytes) {
    return reinterpret_cast<uintptr_t>(bytes.data());
  };
  return begin(one) < begin(other) + other.size() && begin(other) < begin(one) + one.size();
}

// Whether the buffers of two launches conflict, so that they must run in order.
bool shareBuffers(const GpuLaunch& one, const GpuLaunch& other) {
  return overlap(one.writes, other.writes) || overlap(one.writes, other.reads) ||
         overlap(one.reads, other.writes) || overlap(one.writes, other.scalar) ||
         overlap(one.scalar, other.writes);
}

// Whether two launches of one rank must run in order because lanes of different plans would use the same queues.
bool meetAtQueues(const GpuLaunch& one, const GpuLaunch& other) {
  const int32_t parts = one.call.plan.parts;
  const auto distance = [&](const GpuLaunch& from, const GpuLaunch& to) {
    return (to.call.first_part - from.call.first_part + parts) % parts;
  };
  const bool share_parts =
      distance(one, other) < one.call.used_parts || distance(other, one) < other.call.used_parts;
  return share_parts && one.call.plan.records != other.call.plan.records;
}

}  // namespace

GpuLaunches::Gpu& GpuLaunches::gpuOf(int number, const std::shared_ptr<const CudaDevice>& device) {
  Rank& rank = at(number);
  rank.device = device;
  rank.gpu = 0;
  while (rank.gpu < gpus_.size() && gpus_[rank.gpu]->lanes.device().number() != device->number()) ++rank.gpu;
  if (rank.gpu == gpus_.size()) gpus_.push_back(std::make_unique<Gpu>(device));
  return *gpus_[rank.gpu];
}

Status GpuLaunches::load(int rank, const std::shared_ptr<const CudaDevice>& device) {
  return gpuOf(rank, device).lanes.load();
}

Status GpuLaunches::setUp(const std::vector<std::shared_ptr<const CudaDevice>>& devices) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (devices[rank]) gpuOf(static_cast<int>(rank), devices[rank]).ranks.push_back(static_cast<int>(rank));
  for (const auto& gpu : gpus_) {
    const CudaDevice& device = gpu->lanes.device();
    if (gpu->ranks.size() > cuda::kMaxCallsOfLaunch)
      return makeStatus(Code::kInvalidUsage, "%zu ranks share GPU %d, and a launch serves %d",
                        gpu->ranks.size(), device.number(), cuda::kMaxCallsOfLaunch);
    for (const auto& peer : gpus_)
      if (const Status reached = device.reach(peer->lanes.device()); !reached.ok())
        return makeStatus(reached.code(),
                          "%s, so kernels serve none of the ranks of this process. Kernels of processes that "
                          "have a GPU each use what they reach (nvidia-smi topo -p2p rw)",
                          reached.message().c_str());
    HORING_TRY(gpu->lanes.load());
    HORING_ASSIGN(gpu->resident_blocks, gpu->lanes.mostResidentBlocks());
    for (Gpu::Mark& mark : gpu->marks) HORING_TRY(device.makeEvent(mark.done));
  }
  for (Rank& rank : ranks_) {
    if (!rank.device) continue;
    HORING_TRY(rank.device->makeEvent(rank.called));
    // Hosts carry the rest of the messages concurrently; their copies must not queue behind these kernels.
    HORING_TRY(rank.device->makeStream(rank.own));
  }
  return {};
}

int GpuLaunches::residentBlocks() const {
  int least = INT_MAX;
  for (const auto& gpu : gpus_)
    least = std::min(least, gpu->resident_blocks / static_cast<int>(gpu->ranks.size()));
  return least;
}

std::shared_ptr<const CudaDevice> GpuLaunches::anyDevice() const {
  return gpus_.empty() ? nullptr : gpus_.front()->lanes.sharedDevice();
}

bool GpuLaunches::sharesGpus() const {
  return std::any_of(gpus_.begin(), gpus_.end(), [](const auto& gpu) { return gpu->ranks.size() > 1; });
}

bool GpuLaunches::awaitEnd(const std::function<void()>& abort) {
  bool idle = true;
  for (const auto& gpu : gpus_) {
    const CudaEvent latest = gpu->latestOrReplayed();
    if (!latest) continue;
    const CudaDevice::Current current(gpu->lanes.device());
    idle &= awaitEvent(*gpu, latest) || (abort(), awaitEvent(*gpu, latest));
  }
  return idle;
}

// False: it was not reached, and no launch ended for a second.
bool GpuLaunches::awaitEvent(Gpu& gpu, CudaEvent event) {
  const CudaApi& api = gpu.lanes.device().api();
  const SteadyClock clock;
  uint64_t ended = 0;  // marks
  for (Deadline deadline = Deadline::after(clock, kEndMs); api.event_query(event) == CudaApi::kNotReady;) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(kLaunchLook);
    const std::lock_guard lock(gpu.mutex);
    (void)lookAtMarks(gpu);
    if (std::exchange(ended, gpu.looked) != gpu.looked) deadline = Deadline::after(clock, kEndMs);
  }
  return true;
}

void GpuLaunches::leak() {
  for (auto& gpu : gpus_) (void)gpu.release();
}

void GpuLaunches::release() {
  for (Rank& rank : ranks_) {
    if (!rank.device) continue;
    const CudaDevice::Current current(*rank.device);
    if (rank.called) rank.device->api().event_destroy(std::exchange(rank.called, nullptr));
    if (rank.own) rank.device->api().stream_destroy(std::exchange(rank.own, nullptr));
  }
  for (auto& gpu : gpus_) {
    const CudaDevice::Current current(gpu->lanes.device());
    for (const Gpu::Mark& mark : gpu->marks)
      if (mark.done) gpu->lanes.device().api().event_destroy(mark.done);
    for (const auto& [graph, event] : gpu->recorded) gpu->lanes.device().api().event_destroy(event);
    if (gpu->replayed) gpu->lanes.device().api().event_destroy(gpu->replayed);
  }
  gpus_.clear();
}

Result<uint64_t> GpuLaunches::recordedGraph(int number, CudaStream stream) {
  Rank& rank = at(number);
  HORING_ASSIGN(const uint64_t graph, rank.device->recordedGraph(stream));
  if (graph != 0 && gpus_[rank.gpu]->ranks.size() > 1)
    return makeStatus(
        Code::kInvalidUsage,
        "stream %p records a graph: operations of ranks that share GPU %d cannot be part of one", stream,
        rank.device->number());
  return graph;
}

Status GpuLaunches::checkThread(const GpuLaunch& launch) {
  const auto isOfThread = [](CudaStream stream) { return stream == kStreamPerThread; };
  if (!isOfThread(launch.stream) &&
      (!launch.exchange ||
       std::none_of(launch.exchange->others.begin(), launch.exchange->others.end(), isOfThread)))
    return {};
  const Rank& rank = at(launch.rank);
  Gpu& gpu = *gpus_[rank.gpu];
  const std::lock_guard lock(gpu.mutex);
  if (gpu.ranks.size() > 1)
    return makeStatus(Code::kInvalidUsage,
                      "rank %d: cudaStreamPerThread is another stream in the thread that launches for all "
                      "ranks that share GPU %d: pass one of your own",
                      launch.rank, rank.device->number());
  const auto is_copied = [](const GpuLaunch& each) { return each.is_copied; };
  if (is_copied(launch) || std::any_of(rank.waiting.begin(), rank.waiting.end(), is_copied))
    return makeStatus(Code::kInvalidUsage,
                      "rank %d: cudaStreamPerThread is another stream in the thread that copies for all "
                      "ranks: pass one of your own to all-gathers of 8 MiB and more from each rank, and to "
                      "what a group has behind them",
                      launch.rank);
  return {};
}

Status GpuLaunches::enter(GpuLaunch launch) {
  Rank& rank = at(launch.rank);
  Gpu& gpu = *gpus_[rank.gpu];
  const std::lock_guard lock(gpu.mutex);
  HORING_TRY(gpu.failed);
  if (!launch.is_copied && !launch.exchange) {
    launch.call.first_part =
        static_cast<int32_t>(rank.parts_entered % static_cast<uint64_t>(launch.call.plan.parts));
    rank.parts_entered += static_cast<uint64_t>(launch.call.used_parts);
    // Among threads, activity is only needed for recorded launches.
    if (!remote_ && !launch.isRecorded()) launch.call.plan.activity = nullptr;
    if (launch.isRecorded()) launch.call.number |= cuda::kInGraph;
  }
  ++rank.entered;
  if (isCall(launch)) ++rank.calls_entered;
  rank.waiting.push_back(launch);
  return {};
}

Status GpuLaunches::start(int number) {
  Rank& rank = at(number);
  Gpu& gpu = *gpus_[rank.gpu];
  {
    const std::lock_guard lock(gpu.mutex);
    rank.started = rank.waiting.size();
  }
  // The last rank that reaches copies enqueues them for all ranks, and launches the work behind them: the other ranks may only be waiting.
  if (launchUpToCopies(gpu))
    while (copyNext())
      for (const auto& each : gpus_) (void)launchUpToCopies(*each);
  const std::lock_guard lock(gpu.mutex);
  return gpu.failed;
}

bool GpuLaunches::launchUpToCopies(Gpu& gpu) {
  const CudaDevice::Current current(gpu.lanes.device());
  const std::lock_guard lock(gpu.mutex);
  while (gpu.failed.ok() && mayLaunch(gpu) && !copiesAreNext(gpu)) gpu.failed = launchNext(gpu);
  gpu.launched.notify_all();
  return gpu.failed.ok() && mayLaunch(gpu);
}

bool GpuLaunches::mayLaunch(const Gpu& gpu) const {
  return std::all_of(gpu.ranks.begin(), gpu.ranks.end(), [&](int number) { return at(number).started > 0; });
}

bool GpuLaunches::copiesAreNext(const Gpu& gpu) const {
  return mayLaunch(gpu) && at(gpu.ranks.front()).waiting.front().is_copied;
}

Status GpuLaunches::checkAgreement(const std::vector<int>& ranks) const {
  const GpuLaunch& lead = at(ranks.front()).waiting.front();
  for (const int number : ranks)
    if (!isSame(at(number).waiting.front(), lead))
      return makeStatus(
          Code::kInvalidUsage,
          "ranks %d and %d, on GPUs %d and %d, call different things at the same time: every rank "
          "must call the same collectives in the same order with the same arguments",
          lead.rank, number, at(lead.rank).device->number(), at(number).device->number());
  return {};
}

// Whether the launches of all ranks at `index` can be merged with the earlier ones: same kernel, separate blocks or the same plan, and no
// conflicting buffers.
bool GpuLaunches::joins(const Gpu& gpu, size_t index) const {
  for (const int number : gpu.ranks) {
    const Rank& rank = at(number);
    if (rank.started <= index) return false;
    const GpuLaunch &one = rank.waiting[index], &first = rank.waiting.front();
    if (one.is_copied || one.exchange || first.exchange) return false;
    if (!isSame(one, at(gpu.ranks.front()).waiting[index])) return false;
    if (one.stream != first.stream || one.graph != first.graph) return false;
    if (one.call.plan.parts != first.call.plan.parts) return false;
    if (cuda::laneKernelName(one.type, one.op) != cuda::laneKernelName(first.type, first.op)) return false;
    for (size_t before = 0; before < index; ++before) {
      if (meetAtQueues(rank.waiting[before], one)) return false;
      // One rank's launch may use another rank's result.
      for (const int other : gpu.ranks)
        if (shareBuffers(at(other).waiting[before], one)) return false;
    }
  }
  return true;
}

// Launches the first entry of all ranks of the GPU, and the entries that can be merged, on the first rank's stream.
Status GpuLaunches::launchNext(Gpu& gpu) {
  HORING_TRY(checkAgreement(gpu.ranks));
  const size_t most = cuda::kMaxCallsOfLaunch / gpu.ranks.size();
  const GpuLaunch lead = at(gpu.ranks.front()).waiting.front();
  if (lead.exchange) return launchExchange(gpu, lead);
  cuda::LaneCalls calls;
  calls.first_part = lead.call.first_part;
  cuda::LaneGrid grid{0, 0, static_cast<int32_t>(gpu.ranks.size())};
  size_t count = 0;
  for (; count < most && (count == 0 || joins(gpu, count)); ++count) {
    grid.parts += at(gpu.ranks.front()).waiting[count].call.used_parts;
    for (const int number : gpu.ranks) {
      const GpuLaunch& launch = at(number).waiting[count];
      grid.lanes = std::max(grid.lanes, launch.lanes);
      calls.each[calls.count++] = launch.call;
    }
  }
  grid.parts = std::min(grid.parts, lead.call.plan.parts);
  HORING_TRY(comeBehind(gpu, lead));
  for (int32_t call = 0; remote_ && call < calls.count; ++call) {
    const auto blocks = calls.each[call].used_parts * calls.each[call].plan.lane_count;
    if (blocks > 0) tellHost(lead, blocks);
  }
  HORING_TRY(gpu.lanes.launch(calls, grid, lead.type, lead.op, lead.stream));
  gpu.launches += count;
  gpu.launched_so_far.calls += count;
  HORING_TRY(goAhead(gpu, lead));
  pop(gpu, count);
  return {};
}

// Tells the proxy to expect this many blocks. Before the launch, which may block until they have ended (CUDA_LAUNCH_BLOCKING).
void GpuLaunches::tellHost(const GpuLaunch& launch, int32_t blocks) {
  remote_->launched(launch.isRecorded() ? GpuProxy::Launch::kReplayed : GpuProxy::Launch::kOnce,
                    static_cast<uint64_t>(blocks));
}

std::vector<int> GpuLaunches::peersOf(const cuda::ExchangeCall& kernel) {
  std::set<int> peers;
  for (int32_t flow = 0; flow < kernel.flow_count; ++flow)
    peers.insert(cuda::BoundExchange::peerOf(kernel.flows[flow].number));
  return {peers.begin(), peers.end()};
}

// Shares queues with calls, so it runs between them.
Status GpuLaunches::launchExchange(Gpu& gpu, const GpuLaunch& launch) {
  const CudaDevice& device = gpu.lanes.device();
  const CudaApi& api = device.api();
  const Rank& rank = at(launch.rank);
  const GpuExchange& exchange = *launch.exchange;
  for (const CudaStream other : exchange.others) {
    HORING_TRY(api.check(api.event_record(rank.called, other), "recording an event"));
    HORING_TRY(api.check(api.stream_wait_event(launch.stream, rank.called, 0), "ordering two streams"));
  }
  HORING_TRY(comeBehind(gpu, launch));
  for (const GpuExchange::Copy& copy : exchange.to_self)
    HORING_TRY(device.push(device, copy.to, copy.from, launch.stream));
  for (const cuda::ExchangeCall& kernel : exchange.kernels) {
    if (remote_ && !launch.isRecorded()) remote_->launchedMessages(peersOf(kernel));
    if (remote_) tellHost(launch, kernel.blocks);
    HORING_TRY(gpu.lanes.launch(kernel, launch.stream));
  }
  ++gpu.launches;
  if (isCall(launch)) {
    ++gpu.launched_so_far.calls;
  } else if (!launch.isRecorded()) {
    ++gpu.launched_so_far.messages;
  }
  HORING_TRY(goAhead(gpu, launch));
  if (!exchange.is_followed_later && !exchange.others.empty()) {
    HORING_TRY(api.check(api.event_record(rank.called, launch.stream), "recording an event"));
    for (const CudaStream other : exchange.others)
      HORING_TRY(api.check(api.stream_wait_event(other, rank.called, 0), "ordering two streams"));
  }
  pop(gpu, 1);
  return {};
}

Status GpuLaunches::follow(int number, std::span<const CudaStream> streams) {
  Gpu& gpu = *gpus_[at(number).gpu];
  const CudaDevice::Current current(gpu.lanes.device());
  const CudaApi& api = gpu.lanes.device().api();
  const std::lock_guard lock(gpu.mutex);
  for (const CudaStream stream : streams)
    HORING_TRY(api.check(api.stream_wait_event(stream, gpu.latest(), 0), "ordering two streams"));
  return {};
}

void GpuLaunches::pop(const Gpu& gpu, size_t count) {
  for (const int number : gpu.ranks) {
    Rank& rank = at(number);
    rank.waiting.erase(rank.waiting.begin(), rank.waiting.begin() + static_cast<std::ptrdiff_t>(count));
    rank.started -= count;
  }
}

// Counters and plans are used by one launch at a time, also if a program records two on different streams of one graph, and replays graphs
// on some streams while it launches on others.
Status GpuLaunches::comeBehind(Gpu& gpu, const GpuLaunch& launch) {
  return launch.isRecorded() ? orderBeforeRecorded(gpu, launch) : orderBefore(gpu, launch.stream);
}

Status GpuLaunches::goAhead(Gpu& gpu, const GpuLaunch& launch) {
  return launch.isRecorded() ? orderAfterRecorded(gpu, launch) : orderAfter(gpu, launch.stream);
}

Status GpuLaunches::orderBeforeRecorded(Gpu& gpu, const GpuLaunch& launch) {
  const CudaApi& api = gpu.lanes.device().api();
  if (launch.graph == CudaDevice::kUnknownGraph) return {};
  // Waits for what comes before the replay once in a graph: a second wait would be for the replay that it is part of.
  if (const auto earlier = gpu.recorded.find(launch.graph); earlier != gpu.recorded.end())
    return api.check(api.stream_wait_event(launch.stream, earlier->second, 0), "ordering two streams");
  HORING_TRY(beginGraph(gpu, launch.graph));
  if (!api.event_record_with_flags) return {};
  HORING_TRY(beginReplays(gpu, at(launch.rank).own));
  return api.check(api.stream_wait_event(launch.stream, gpu.replayed, kOutsideOfGraph),
                   "letting a graph wait for what comes before a replay");
}

Status GpuLaunches::beginGraph(Gpu& gpu, uint64_t graph) {
  CudaEvent event = nullptr;
  if (gpu.recorded.size() < kMostGraphs) {
    const OutsideOfGraphs outside(gpu.lanes.device().api());
    HORING_TRY(gpu.lanes.device().makeEvent(event));
  } else {
    event = gpu.recorded.extract(gpu.recorded.begin()).mapped();
  }
  gpu.recorded.emplace(graph, event);
  return {};
}

// Lets the first replay wait for the launches so far.
Status GpuLaunches::beginReplays(Gpu& gpu, CudaStream never_recorded) {
  if (gpu.replayed) return {};
  const CudaDevice& device = gpu.lanes.device();
  const CudaApi& api = device.api();
  const OutsideOfGraphs outside(api);
  HORING_TRY(device.makeEvent(gpu.replayed));
  HORING_TRY(
      api.check(api.stream_wait_event(never_recorded, gpu.latest(), 0), "ordering a replay after launches"));
  return api.check(api.event_record(gpu.replayed, never_recorded), "recording an event");
}

Status GpuLaunches::orderAfterRecorded(Gpu& gpu, const GpuLaunch& launch) {
  if (launch.graph == CudaDevice::kUnknownGraph) return {};
  const CudaApi& api = gpu.lanes.device().api();
  if (gpu.replayed)
    HORING_TRY(api.check(api.event_record_with_flags(gpu.replayed, launch.stream, kOutsideOfGraph),
                         "letting a graph record an event"));
  return api.check(api.event_record(gpu.recorded.at(launch.graph), launch.stream), "recording an event");
}

// The other ranks enqueue nothing behind their calls before these are launched.
Status GpuLaunches::orderBefore(Gpu& gpu, CudaStream stream) {
  const CudaApi& api = gpu.lanes.device().api();
  // Also if the latest launch was on this stream handle: a new stream may reuse the handle of a destroyed one, and cudaStreamPerThread is a
  // different stream in each thread.
  HORING_TRY(api.check(api.stream_wait_event(stream, gpu.latestOrReplayed(), 0), "ordering two streams"));
  for (const int number : gpu.ranks) {
    const Rank& rank = at(number);
    const CudaStream own = rank.waiting.front().stream;
    if (own == stream) continue;
    HORING_TRY(api.check(api.event_record(rank.called, own), "recording an event"));
    HORING_TRY(api.check(api.stream_wait_event(stream, rank.called, 0), "ordering two streams"));
  }
  return {};
}

Status GpuLaunches::orderAfter(Gpu& gpu, CudaStream stream) {
  HORING_TRY(mark(gpu, stream));
  const CudaApi& api = gpu.lanes.device().api();
  if (gpu.replayed) HORING_TRY(api.check(api.event_record(gpu.replayed, stream), "recording an event"));
  for (const int number : gpu.ranks)
    if (const CudaStream own = at(number).waiting.front().stream; own != stream)
      HORING_TRY(api.check(api.stream_wait_event(own, gpu.latest(), 0), "ordering two streams"));
  return {};
}

Status GpuLaunches::mark(Gpu& gpu, CudaStream stream) {
  Gpu::Mark& next = gpu.marks[gpu.marked++ % kMarks];
  next.launched = gpu.launched_so_far;
  const CudaApi& api = gpu.lanes.device().api();
  return api.check(api.event_record(next.done, stream), "recording an event");
}

Status GpuLaunches::await(int number, const GpuWaitLimit& limit) {
  Rank& rank = at(number);
  Gpu& gpu = *gpus_[rank.gpu];
  std::unique_lock lock(gpu.mutex);
  while (gpu.launches < rank.entered && gpu.failed.ok()) {
    gpu.launched.wait_for(lock, kLaunchLook);
    if (gpu.launches >= rank.entered || !gpu.failed.ok()) break;
    const uint64_t launched = gpu.launches, calls = gpu.launched_so_far.calls;
    const bool is_copied = rank.waiting.front().is_copied;
    lock.unlock();
    Status news = limit.news();
    if (news.ok() && limit.deadline.passed()) news = overdue(number, calls, is_copied);
    lock.lock();
    // If launches made progress meanwhile, do not blame them.
    if (news.ok() || gpu.launches > launched || !gpu.failed.ok()) continue;
    gpu.failed = news;
    gpu.launched.notify_all();
  }
  return gpu.failed;
}

Status GpuLaunches::overdue(int number, uint64_t calls, bool is_copied) {
  // The ranks that share the GPU (for copies: all ranks) must have entered the launch with that number.
  std::vector<int> missing, gone;
  for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
    if (!at(other).device || (!is_copied && at(other).gpu != at(number).gpu)) continue;
    Gpu& gpu = *gpus_[at(other).gpu];
    const std::lock_guard lock(gpu.mutex);
    const auto& waiting = at(other).waiting;
    const auto started = waiting.begin() + static_cast<std::ptrdiff_t>(at(other).started);
    const uint64_t launched = gpu.launched_so_far.calls;
    if (launched > calls) {
      gone.push_back(other);
    } else if (launched + static_cast<uint64_t>(std::count_if(waiting.begin(), started, isCall)) <= calls) {
      missing.push_back(other);
    }
  }
  if (!missing.empty())
    return makeStatus(
        Code::kTimeout,
        "rank %d: rank(s) %s%s did not make this call (HORING_TIMEOUT_MS). Calls of one thread for "
        "several ranks belong into a group",
        number, rankList(missing).c_str(), is_copied ? "" : ", which share its GPU,");
  if (!gone.empty())
    return makeStatus(
        Code::kTimeout,
        "rank %d: rank(s) %s launched kernels where this rank copies (HORING_TIMEOUT_MS): their streams "
        "recorded a graph, or they called something else. Either all ranks record a call, or none",
        number, rankList(gone).c_str());
  return makeStatus(Code::kTimeout,
                    "rank %d: other ranks made this call so late that it was not on its way in time "
                    "(HORING_TIMEOUT_MS)",
                    number);
}

uint64_t GpuLaunches::firstWaiting(int number) {
  const Rank& rank = at(number);
  const std::lock_guard lock(gpus_[rank.gpu]->mutex);
  return rank.waiting.empty() ? 0 : rank.waiting.front().call.number & ~cuda::kInGraph;
}

Result<GpuLaunches::Done> GpuLaunches::done(int number) {
  Rank& rank = at(number);
  Gpu& gpu = *gpus_[rank.gpu];
  const CudaDevice::Current current(*rank.device);
  const OutsideOfGraphs outside(rank.device->api());
  const std::lock_guard lock(gpu.mutex);
  HORING_TRY(lookAtMarks(gpu));
  return gpu.ended;
}

Status GpuLaunches::lookAtMarks(Gpu& gpu) {
  const CudaDevice& device = gpu.lanes.device();
  for (gpu.looked = std::max(gpu.looked, gpu.marked - kMarks); gpu.looked < gpu.marked; ++gpu.looked) {
    const Gpu::Mark& next = gpu.marks[gpu.looked % kMarks];
    const int state = device.api().event_query(next.done);
    if (state == CudaApi::kNotReady) break;
    HORING_TRY(device.api().check(state, formatString("kernels on GPU %d", device.number()).c_str()));
    gpu.ended = next.launched;
  }
  return {};
}

std::vector<int> GpuLaunches::behind(int number) const {
  // relaxed: no other data depends on it.
  const auto entered = [this](size_t rank) {
    return ranks_[rank].calls_entered.load(std::memory_order_relaxed);
  };
  std::vector<int> behind;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].device && entered(rank) < entered(static_cast<size_t>(number)))
      behind.push_back(static_cast<int>(rank));
  return behind;
}

Result<CudaStream> GpuLaunches::ownStream(int number) {
  Rank& rank = at(number);
  const CudaDevice::Current current(*rank.device);
  const CudaApi& api = rank.device->api();
  // The thread that launches for this rank uses its event, too.
  const std::lock_guard lock(gpus_[rank.gpu]->mutex);
  // Orders after earlier work on the default stream.
  HORING_TRY(api.check(api.event_record(rank.called, nullptr), "recording an event"));
  HORING_TRY(api.check(api.stream_wait_event(rank.own, rank.called, 0), "ordering two streams"));
  return rank.own;
}

}  // namespace horing
