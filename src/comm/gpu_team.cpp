#include "comm/gpu_team.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/outside_of_graphs.h"
#include "comm/proof.h"
#include "control/rank_list.h"
#include "control/root_service.h"
#include "engine/cuda/device_memory.h"
#include "engine/cuda/pinned_memory.h"
#include "engine/host/plan.h"

namespace horing {

namespace {

// Of this process, for others have it open. Who looks for leaks finds it here.
void keepUntilTheEnd(std::unique_ptr<cuda::Memory> memory) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<cuda::Memory>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

// Of cuda.h.
constexpr unsigned int kEventWithoutTime = 2, kStreamNonBlocking = 1;

constexpr std::chrono::milliseconds kTeamLook{1};
constexpr int64_t kEndMs = 1000;

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

// Every one fits; of algorithms see setUp(), and runs begin anew.
constexpr ReplayNumber kMostOfReplays = ReplayNumber::decoded(UINT64_MAX);
static_assert(kCollectives - 1 <= kMostOfReplays.collective);
static_assert(kMaxRanks - 1 <= kMostOfReplays.root);
static_assert(cuda::kMaxParts - 1 <= kMostOfReplays.part);
static_assert(kMostOfReplays.run == ReplayNumber::kRunMask);

ReplayNumber replayNumber(const std::array<int, 3>& key, int32_t part, uint64_t run) {
  return {static_cast<uint32_t>(key[0]), static_cast<uint32_t>(key[1]), static_cast<uint32_t>(key[2]),
          static_cast<uint32_t>(part), static_cast<uint32_t>(run & ReplayNumber::kRunMask)};
}

// What a graph replayed when this happened; nothing: a host launched it, or memory of the GPU was written over.
std::optional<ReplayNumber> replayOf(const std::array<int, 3>& key, const cuda::Failure& failure) {
  if ((failure.call & cuda::kInGraph) == 0 || failure.part < 0 || failure.part >= cuda::kMaxParts)
    return std::nullopt;
  return replayNumber(key, failure.part, failure.run);
}

// Whether one launch of a rank must have ended before another begins: for its buffers, or since lanes of different plans would
// meet at the same queues.
bool collide(const GpuLaunch& one, const GpuLaunch& other) {
  if (overlap(one.writes, other.writes) || overlap(one.writes, other.reads) ||
      overlap(one.reads, other.writes) || overlap(one.writes, other.scalar) ||
      overlap(one.scalar, other.writes))
    return true;
  const int32_t parts = one.call.plan.parts;
  const auto distance = [&](const GpuLaunch& from, const GpuLaunch& to) {
    return (to.call.first_part - from.call.first_part + parts) % parts;
  };
  const bool meet =
      distance(one, other) < one.call.used_parts || distance(other, one) < other.call.used_parts;
  return meet && one.call.plan.records != other.call.plan.records;
}

}  // namespace

// The ends of one rank, by the positions of a schedule.
class GpuTeam::Ports final : public cuda::PortSource {
 public:
  Ports(GpuTeam& team, int32_t position) : team_(team), position_(position) {}
  Result<cuda::Port*> port(const cuda::PortName& name, int32_t part) override {
    using Kind = cuda::PortName::Kind;
    const bool sends = name.kind == Kind::kSend || name.kind == Kind::kScratchSend;
    const int own = rankAt(position_);
    QueueName wanted{own, own, kLinkChannels + name.queue, part};
    if (name.queue < 0) {
      (sends ? wanted.receiver : wanted.sender) = rankAt(name.position);
      wanted.channel = name.channel;
    }
    HORING_ASSIGN(const QueueEnds ends, team_.queue(wanted));
    return sends ? ends.send : ends.receive;
  }
  Result<cuda::Activity*> activity(size_t blocks) override {
    return team_.makeActivity(rankAt(position_), blocks);
  }

 private:
  int rankAt(int32_t position) const { return team_.rank_of_position_[static_cast<size_t>(position)]; }
  GpuTeam& team_;
  const int32_t position_;
};

GpuTeam::~GpuTeam() {
  // Perhaps another communicator's, which only the shared kernels still have; it goes last.
  std::shared_ptr<const CudaDevice> device;
  std::optional<OutsideOfGraphs> outside;
  if (!gpus_.empty()) {
    device = gpus_.front()->lanes.sharedDevice();
    outside.emplace(device->api());
  }
  const SteadyClock clock;
  bool idle = true;
  for (const auto& gpu : gpus_) {
    if (!gpu->latest()) continue;
    const CudaDevice::Current current(gpu->lanes.device());
    const CudaApi& api = gpu->lanes.device().api();
    for (const bool told : {false, true}) {
      if (told) abort();
      const Deadline deadline = Deadline::after(clock, kEndMs);
      while (api.event_query(gpu->latest()) == CudaApi::kNotReady && !deadline.passed())
        std::this_thread::sleep_for(kTeamLook);
    }
    idle &= api.event_query(gpu->latest()) != CudaApi::kNotReady;
  }
  if (idle) {
    release();
    return;
  }
  // Something in front of a launch holds its stream up.
  if (remote_) remote_->leak();
  flags_.leak();
  plans_.clear();
  for (Rank& rank : ranks_) {
    (void)rank.memory.release();
    (void)rank.told.release();
  }
  for (auto& gpu : gpus_) (void)gpu.release();
}

void GpuTeam::release() {
  if (remote_ && !remote_->leave()) keepUntilTheEnd(std::move(at(remote_->rank()).memory));
  remote_.reset();
  plans_.clear();
  {
    const std::lock_guard lock(made_mutex_);
    made_.clear();
  }
  queues_.clear();
  for (Rank& rank : ranks_) {
    rank.memory.reset();
    rank.told.reset();
    if (!rank.device) continue;
    const CudaDevice::Current current(*rank.device);
    if (rank.called) rank.device->api().event_destroy(std::exchange(rank.called, nullptr));
    if (rank.own) rank.device->api().stream_destroy(std::exchange(rank.own, nullptr));
  }
  for (auto& gpu : gpus_) {
    const CudaDevice::Current current(gpu->lanes.device());
    for (const Gpu::Mark& mark : gpu->marks)
      if (mark.done) gpu->lanes.device().api().event_destroy(mark.done);
  }
  gpus_.clear();
  abort_.store(nullptr, std::memory_order_release);
  flags_ = PinnedMemory();
}

std::shared_ptr<GpuTeam> GpuTeam::branch(const JobId& name, int ranks) {
  const std::lock_guard lock(mutex_);
  std::erase_if(branches_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<GpuTeam>& known = branches_[name];
  std::shared_ptr<GpuTeam> team = known.lock();
  if (!team) known = team = std::make_shared<GpuTeam>(ranks);
  return team;
}

void GpuTeam::arrive(int rank, std::shared_ptr<const CudaDevice> device) {
  const std::lock_guard lock(mutex_);
  if (!at(rank).device) at(rank).device = std::move(device);
  changed_.notify_all();
}

std::vector<int> GpuTeam::missing() const {
  std::vector<int> missing;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].device && isHere(static_cast<int>(rank))) missing.push_back(static_cast<int>(rank));
  return missing;
}

const CudaDevice& GpuTeam::anyDevice() const {
  return *std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
            return rank.device != nullptr;
          })->device;
}

Result<bool> GpuTeam::serves(const Member& member, const GpuPatience& patience) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kGathering && !remote_) {
    const OutsideOfGraphs outside(at(member.rank).device->api());
    // What this rank alone finds out spares all the wait.
    const Status loads = gpuOf(at(member.rank)).lanes.load();
    if (!loads.ok()) stage(member, loads);
  }
  while (state_ == State::kGathering && !missing().empty()) {
    changed_.wait_for(lock, kTeamLook);
    lock.unlock();
    HORING_TRY(patience.news());
    lock.lock();
    if (patience.deadline.passed() && !missing().empty())
      return makeStatus(Code::kTimeout,
                        "rank %d: rank(s) %s of this process never came with an operation on a GPU "
                        "(HORING_TIMEOUT_MS). Calls of one thread for several ranks belong into a group",
                        member.rank, rankList(missing()).c_str());
  }
  if (state_ == State::kGathering) {
    config_ = member.config;
    map_ = member.map;
    log_ = member.log;
    const OutsideOfGraphs outside(at(member.rank).device->api());
    Status made = setUp();
    if (remote_) {
      const Rank& own = at(member.rank);
      const int blocks = made.ok() ? gpus_[own.gpu]->resident_blocks : 0;
      HORING_ASSIGN(const RemoteGpus::Verdict verdict,
                    remote_->agree({own.device, made, own.memory.get(), blocks, abort_.load(), member.news}));
      made = verdict.why_not;
      if (made.ok()) adopt(verdict.terms);
    }
    if (made.ok()) {
      state_ = State::kKernels;
      log_.info("gpu", "kernels serve operations on GPUs: %zu MiB of each rank's, slots of %u KiB, %d parts",
                cuda::kGpuMemoryBytes >> 20, shape_.slot_bytes >> 10, settings_.parts);
      if (!remote_)
        log_.info("gpu", "all-gathers of %lld bytes from each rank and more are copies between GPUs",
                  static_cast<long long>(config_.gpu_copy_bytes));
    } else {
      stage(member, made);
    }
  }
  return state_ == State::kKernels;
}

void GpuTeam::stage(const Member& member, const Status& why) {
  state_ = State::kStaged;
  member.log.info("gpu", "operations on GPUs go through memory of the host: %s", why.message().c_str());
  release();
  changed_.notify_all();
}

GpuTeam::Gpu& GpuTeam::gpuOf(Rank& rank) {
  rank.gpu = 0;
  while (rank.gpu < gpus_.size() && gpus_[rank.gpu]->lanes.device().number() != rank.device->number())
    ++rank.gpu;
  if (rank.gpu == gpus_.size()) gpus_.push_back(std::make_unique<Gpu>(rank.device));
  return *gpus_[rank.gpu];
}

Status GpuTeam::setUp() {
  HORING_CHECK_LE(algorithmCatalogue().size() - 1, size_t{kMostOfReplays.algorithm});
  for (int position = 0; position < map_->ranks(); ++position)
    rank_of_position_.push_back(map_->rankOfPosition(position));
  HORING_TRY(setUpGpus());
  return setUpMemory();
}

// What all ranks have agreed on.
void GpuTeam::adopt(const GpuTerms& terms) {
  most_blocks_ = terms.most_blocks;
  resident_blocks_ = terms.resident_blocks;
  shape_ = remote_->shape();
  settings_.slot_bytes = shape_.slot_bytes;
  settings_.parts = remote_->parts();
}

Status GpuTeam::setUpGpus() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].device) gpuOf(ranks_[rank]).ranks.push_back(static_cast<int>(rank));
  for (const auto& gpu : gpus_) {
    const CudaDevice& device = gpu->lanes.device();
    if (gpu->ranks.size() > cuda::kMaxCallsOfLaunch)
      return makeStatus(Code::kInvalidUsage, "%zu ranks share GPU %d, and a launch serves %d",
                        gpu->ranks.size(), device.number(), cuda::kMaxCallsOfLaunch);
    for (const auto& peer : gpus_) HORING_TRY(device.reach(peer->lanes.device()));
    HORING_TRY(gpu->lanes.load());
    HORING_ASSIGN(gpu->resident_blocks, gpu->lanes.mostResidentBlocks());
    const CudaDevice::Current current(device);
    for (Gpu::Mark& mark : gpu->marks)
      HORING_TRY(
          device.api().check(device.api().event_create(&mark.done, kEventWithoutTime), "making an event"));
  }
  return {};
}

Status GpuTeam::setUpMemory() {
  for (Rank& rank : ranks_) {
    if (!rank.device) continue;
    HORING_ASSIGN(rank.memory, cuda::makeDeviceMemory(rank.device, cuda::kGpuMemoryBytes));
    if (!remote_) {
      HORING_ASSIGN(rank.told, cuda::makePinnedMemory(rank.device, kGpuToldBytes));
    }
    const CudaDevice::Current current(*rank.device);
    const CudaApi& api = rank.device->api();
    HORING_TRY(api.check(api.event_create(&rank.called, kEventWithoutTime), "making an event"));
    HORING_TRY(api.check(api.stream_create(&rank.own, kStreamNonBlocking), "making a stream"));
  }
  HORING_ASSIGN(flags_, PinnedMemory::allocate(gpus_.front()->lanes.sharedDevice(), sizeof(uint32_t)));
  auto* const flag = reinterpret_cast<uint32_t*>(flags_.data());
  *flag = 0;
  abort_.store(flag, std::memory_order_release);
  settings_.window = static_cast<int32_t>(config_.window);
  settings_.timeout_ns = static_cast<uint64_t>(config_.timeout_ms) * 1'000'000;
  most_blocks_ = static_cast<int>(config_.gpu_blocks);
  if (!remote_) chooseShape();
  return {};
}

void GpuTeam::chooseShape() {
  const cuda::GpuQueues queues = cuda::gpuQueues(ranks_.size(), settings_.window);
  shape_ = queues.shape;
  settings_.slot_bytes = shape_.slot_bytes;
  settings_.parts = queues.parts;
}

Result<GpuTeam::QueueEnds> GpuTeam::queue(const QueueName& name) {
  if (const auto found = queues_.find(name); found != queues_.end()) return found->second;
  if (!isHere(name.sender) || !isHere(name.receiver)) return makeRemoteQueue(name);
  cuda::Memory& sender = *at(name.sender).memory;
  cuda::Memory& receiver = *at(name.receiver).memory;
  HORING_ASSIGN(const cuda::Queue queue, cuda::makeQueue(shape_, sender, receiver));
  QueueEnds ends{};
  HORING_ASSIGN(ends.send, place(name.sender, queue.send));
  HORING_ASSIGN(ends.receive, place(name.receiver, queue.receive));
  queues_.emplace(name, ends);
  queues_of_plan_.push_back(name);
  return ends;
}

// The end that is here, of a queue that the host carries on.
Result<GpuTeam::QueueEnds> GpuTeam::makeRemoteQueue(const QueueName& name) {
  const bool sends = isHere(name.sender);
  const int channel = cuda::bridgeChannel(name.channel, name.part);
  HORING_ASSIGN(const cuda::Port port, remote_->port({sends ? name.receiver : name.sender, channel, sends}));
  QueueEnds ends{};
  HORING_ASSIGN((sends ? ends.send : ends.receive), place(remote_->rank(), port));
  queues_.emplace(name, ends);
  queues_of_plan_.push_back(name);
  return ends;
}

Result<cuda::Port*> GpuTeam::place(int rank, const cuda::Port& port) {
  cuda::Memory& memory = *at(rank).memory;
  HORING_ASSIGN(std::byte* const there, memory.allocate(sizeof port));
  HORING_TRY(memory.write(there, &port, sizeof port));
  return reinterpret_cast<cuda::Port*>(there);
}

Result<const GpuTeam::Plans*> GpuTeam::plans(Collective collective, const Selection& selection, int root) {
  HORING_CHECK(root >= 0 && static_cast<size_t>(root) < ranks_.size());
  const std::array key{static_cast<int>(collective),
                       static_cast<int>(selection.algorithm - algorithmCatalogue().data()), root};
  const std::lock_guard lock(mutex_);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    const OutsideOfGraphs outside(anyDevice().api());
    std::vector<Used> used;
    for (const Rank& rank : ranks_)
      used.push_back({rank.memory ? rank.memory->used() : 0, rank.told ? rank.told->used() : 0});
    queues_of_plan_.clear();
    Result<Plans> made = makePlans(collective, selection, root);
    if (remote_) {
      HORING_ASSIGN(const bool all_made, remote_->allMade(key, made.ok()));
      if (!all_made && made.ok())
        made = makeStatus(Code::kUnhandledCudaError, "another rank has no plan for it");
    }
    if (!made.ok()) {
      log_.info("gpu", "%s %s goes through memory of the host: %s", selection.algorithm->name,
                collectiveName(collective), made.status().message().c_str());
      HORING_TRY(undoPlans(used));
    }
    found = plans_.emplace(key, made.ok() ? made.take() : Plans()).first;
    const std::lock_guard made_lock(made_mutex_);
    if (!found->second.empty()) made_.emplace(key, &found->second);
  }
  return found->second.empty() ? nullptr : &found->second;
}

Result<cuda::Activity*> GpuTeam::makeActivity(int rank, size_t blocks) {
  if (remote_) return remote_->activity(blocks);
  HORING_ASSIGN(std::byte* const told, at(rank).told->allocate(blocks * sizeof(cuda::Activity)));
  return reinterpret_cast<cuda::Activity*>(told);
}

Status GpuTeam::undoPlans(const std::vector<Used>& used) {
  for (const QueueName& name : queues_of_plan_) queues_.erase(name);
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].memory) HORING_TRY(ranks_[rank].memory->rewind(used[rank].memory));
    if (ranks_[rank].told) HORING_TRY(ranks_[rank].told->rewind(used[rank].told));
  }
  return {};
}

// As many as let every block of every rank be resident at once, and as HORING_GPU_BLOCKS grants; 0: not even one does.
int32_t GpuTeam::partsFor(const std::vector<Schedule>& schedules) const {
  size_t lanes = 1;
  for (const Schedule& schedule : schedules) lanes = std::max(lanes, schedule.lanes.size());
  const auto granted = std::max<size_t>(static_cast<size_t>(most_blocks_) / lanes, 1);
  auto parts = std::min(granted, static_cast<size_t>(settings_.parts));
  if (remote_) return static_cast<int32_t>(std::min(parts, static_cast<size_t>(resident_blocks_) / lanes));
  for (const auto& gpu : gpus_)
    parts = std::min(parts, static_cast<size_t>(gpu->resident_blocks) / (lanes * gpu->ranks.size()));
  return static_cast<int32_t>(parts);
}

Result<GpuTeam::Plans> GpuTeam::makePlans(Collective collective, const Selection& selection, int root) {
  const int32_t root_position = hasRoot(collective) ? map_->positionOfRank(root) : 0;
  const auto name = std::string(selection.algorithm->name);
  std::vector<Schedule> schedules;
  for (int32_t position = 0; position < selection.shape.ranks(); ++position) {
    HORING_ASSIGN(Schedule schedule,
                  buildSchedule(name, collective, selection.shape, position, root_position));
    schedules.push_back(std::move(schedule));
  }
  PlanParameters parameters;
  parameters.slices = representativeSlices(kMaxSlices, settings_.window);
  parameters.window = {settings_.window};
  parameters.slots = static_cast<int32_t>(shape_.slots);
  parameters.scratch_slices = static_cast<int32_t>(shape_.slots);
  if (wantsProof(config_, selection.shape.ranks())) HORING_TRY(proveSchedules(schedules, parameters));
  cuda::BoundPlanSettings settings = settings_;
  settings.parts = partsFor(schedules);
  if (settings.parts == 0)
    return makeStatus(Code::kInvalidUsage,
                      "the blocks of %s %s of all ranks that share a GPU are not resident at once",
                      name.c_str(), collectiveName(collective));
  Plans plans;
  for (size_t position = 0; position < schedules.size(); ++position) {
    if (!isHere(rank_of_position_[position])) {
      plans.emplace_back();
      continue;
    }
    Ports ports(*this, static_cast<int32_t>(position));
    cuda::Memory& memory = *at(rank_of_position_[position]).memory;
    HORING_ASSIGN(auto plan, cuda::BoundPlan::make(std::move(schedules[position]), settings,
                                                   rank_of_position_.data(), abort_.load(), memory, ports));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Result<bool> GpuTeam::isRecorded(int number, CudaStream stream) {
  Rank& rank = at(number);
  HORING_ASSIGN(const bool records, rank.device->isCapturing(stream));
  if (records && gpus_[rank.gpu]->ranks.size() > 1)
    return makeStatus(
        Code::kInvalidUsage,
        "stream %p records a graph: operations of ranks that share GPU %d cannot be part of one", stream,
        rank.device->number());
  return records;
}

Status GpuTeam::checkThread(const GpuLaunch& launch) {
  if (launch.stream != kStreamPerThread) return {};
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
                      "ranks: pass one of your own to all-gathers of HORING_GPU_COPY_BYTES and more, and to "
                      "what a group has behind them",
                      launch.rank);
  return {};
}

Status GpuTeam::enter(GpuLaunch launch) {
  Rank& rank = at(launch.rank);
  Gpu& gpu = *gpus_[rank.gpu];
  const std::lock_guard lock(gpu.mutex);
  HORING_TRY(gpu.failed);
  if (!launch.is_copied) {
    launch.call.first_part =
        static_cast<int32_t>(rank.parts_entered % static_cast<uint64_t>(launch.call.plan.parts));
    rank.parts_entered += static_cast<uint64_t>(launch.call.used_parts);
    // Between threads nobody looks at what a host has launched by itself.
    if (!remote_ && !launch.is_recorded) launch.call.plan.activity = nullptr;
    if (launch.is_recorded) launch.call.number |= cuda::kInGraph;
  }
  ++rank.entered;
  rank.waiting.push_back(launch);
  return {};
}

Status GpuTeam::start(int number) {
  Rank& rank = at(number);
  Gpu& gpu = *gpus_[rank.gpu];
  {
    const std::lock_guard lock(gpu.mutex);
    rank.started = rank.waiting.size();
  }
  // Who comes last to copies makes them for all ranks, and launches what comes behind them: the others may only wait.
  if (launchUpToCopies(gpu))
    while (copyNext())
      for (const auto& each : gpus_) (void)launchUpToCopies(*each);
  const std::lock_guard lock(gpu.mutex);
  return gpu.failed;
}

bool GpuTeam::launchUpToCopies(Gpu& gpu) {
  const CudaDevice::Current current(gpu.lanes.device());
  const std::lock_guard lock(gpu.mutex);
  while (gpu.failed.ok() && mayLaunch(gpu) && !copiesAreNext(gpu)) gpu.failed = launchNext(gpu);
  gpu.launched.notify_all();
  return gpu.failed.ok() && mayLaunch(gpu);
}

bool GpuTeam::mayLaunch(const Gpu& gpu) const {
  return std::all_of(gpu.ranks.begin(), gpu.ranks.end(), [&](int number) { return at(number).started > 0; });
}

bool GpuTeam::copiesAreNext(const Gpu& gpu) const {
  return mayLaunch(gpu) && at(gpu.ranks.front()).waiting.front().is_copied;
}

Status GpuTeam::checkAgreement(const std::vector<int>& ranks) const {
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

// Whether the launches of all ranks at `index` can go together with those before them: by the same kernel, on blocks of their
// own or after a call of the same plan there, and with buffers of their own.
bool GpuTeam::joins(const Gpu& gpu, size_t index) const {
  for (const int number : gpu.ranks) {
    const Rank& rank = at(number);
    if (rank.started <= index) return false;
    const GpuLaunch &one = rank.waiting[index], &first = rank.waiting.front();
    if (one.is_copied) return false;
    if (!isSame(one, at(gpu.ranks.front()).waiting[index])) return false;
    if (one.stream != first.stream || one.is_recorded != first.is_recorded) return false;
    if (one.call.plan.parts != first.call.plan.parts) return false;
    if (cuda::laneKernelName(one.type, one.op) != cuda::laneKernelName(first.type, first.op)) return false;
    for (size_t before = 0; before < index; ++before)
      if (collide(rank.waiting[before], one)) return false;
  }
  return true;
}

// The first of all ranks of the GPU, and what can go with them, on the first rank's stream.
Status GpuTeam::launchNext(Gpu& gpu) {
  HORING_TRY(checkAgreement(gpu.ranks));
  const size_t most = cuda::kMaxCallsOfLaunch / gpu.ranks.size();
  const GpuLaunch lead = at(gpu.ranks.front()).waiting.front();
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
  if (!lead.is_recorded) HORING_TRY(orderBefore(gpu, lead.stream));
  HORING_TRY(gpu.lanes.launch(calls, grid, lead.type, lead.op, lead.stream));
  gpu.launches += count;
  for (int32_t call = 0; remote_ && call < calls.count; ++call) {
    const auto blocks = calls.each[call].used_parts * calls.each[call].plan.lane_count;
    if (blocks > 0)
      remote_->launched(lead.is_recorded ? GpuProxy::Launch::kReplayed : GpuProxy::Launch::kOnce,
                        static_cast<uint64_t>(blocks));
  }
  if (!lead.is_recorded) HORING_TRY(orderAfter(gpu, lead.stream));
  pop(gpu, count);
  return {};
}

void GpuTeam::pop(const Gpu& gpu, size_t count) {
  for (const int number : gpu.ranks) {
    Rank& rank = at(number);
    rank.waiting.erase(rank.waiting.begin(), rank.waiting.begin() + static_cast<std::ptrdiff_t>(count));
    rank.started -= count;
  }
}

// Counters and plans belong to one launch after the other. What a graph records is ordered by whoever replays it. The other ranks
// put nothing behind their calls before these are on their way.
Status GpuTeam::orderBefore(Gpu& gpu, CudaStream stream) {
  const CudaApi& api = gpu.lanes.device().api();
  // Also where the latest launch was on this stream: another one may have got the handle of one that was destroyed meanwhile, as another
  // thread has another one of cudaStreamPerThread.
  HORING_TRY(api.check(api.stream_wait_event(stream, gpu.latest(), 0), "ordering two streams"));
  for (const int number : gpu.ranks) {
    const Rank& rank = at(number);
    const CudaStream own = rank.waiting.front().stream;
    if (own == stream) continue;
    HORING_TRY(api.check(api.event_record(rank.called, own), "recording an event"));
    HORING_TRY(api.check(api.stream_wait_event(stream, rank.called, 0), "ordering two streams"));
  }
  return {};
}

Status GpuTeam::orderAfter(Gpu& gpu, CudaStream stream) {
  HORING_TRY(mark(gpu, stream));
  const CudaApi& api = gpu.lanes.device().api();
  for (const int number : gpu.ranks)
    if (const CudaStream own = at(number).waiting.front().stream; own != stream)
      HORING_TRY(api.check(api.stream_wait_event(own, gpu.latest(), 0), "ordering two streams"));
  return {};
}

Status GpuTeam::mark(Gpu& gpu, CudaStream stream) {
  Gpu::Mark& next = gpu.marks[gpu.marked++ % kMarks];
  next.launches = gpu.launches;
  const CudaApi& api = gpu.lanes.device().api();
  return api.check(api.event_record(next.done, stream), "recording an event");
}

Status GpuTeam::await(int number, const GpuPatience& patience) {
  Rank& rank = at(number);
  Gpu& gpu = *gpus_[rank.gpu];
  std::unique_lock lock(gpu.mutex);
  while (gpu.launches < rank.entered && gpu.failed.ok()) {
    gpu.launched.wait_for(lock, kTeamLook);
    if (gpu.launches >= rank.entered || !gpu.failed.ok()) break;
    const uint64_t launched = gpu.launches;
    const bool is_copied = rank.waiting.front().is_copied;
    lock.unlock();
    Status news = patience.news();
    if (news.ok() && patience.deadline.passed()) news = overdue(number, launched, is_copied);
    lock.lock();
    // What went on meanwhile is not to blame.
    if (news.ok() || gpu.launches > launched || !gpu.failed.ok()) continue;
    gpu.failed = news;
    gpu.launched.notify_all();
  }
  return gpu.failed;
}

Status GpuTeam::overdue(int number, uint64_t launched, bool is_copied) {
  // The others must have come to the launch with that number: those that share the GPU, and for copies all.
  std::vector<int> missing, gone;
  for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
    if (!isHere(other) || (!is_copied && at(other).gpu != at(number).gpu)) continue;
    Gpu& gpu = *gpus_[at(other).gpu];
    const std::lock_guard lock(gpu.mutex);
    if (gpu.launches > launched) {
      gone.push_back(other);
    } else if (gpu.launches + at(other).started <= launched) {
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

uint64_t GpuTeam::firstWaiting(int number) {
  const Rank& rank = at(number);
  const std::lock_guard lock(gpus_[rank.gpu]->mutex);
  return rank.waiting.empty() ? 0 : rank.waiting.front().call.number & ~cuda::kInGraph;
}

Result<uint64_t> GpuTeam::done(int number) {
  Rank& rank = at(number);
  Gpu& gpu = *gpus_[rank.gpu];
  const CudaDevice::Current current(*rank.device);
  const CudaApi& api = rank.device->api();
  const OutsideOfGraphs outside(api);
  const std::lock_guard lock(gpu.mutex);
  for (gpu.looked = std::max(gpu.looked, gpu.marked - kMarks); gpu.looked < gpu.marked; ++gpu.looked) {
    const Gpu::Mark& next = gpu.marks[gpu.looked % kMarks];
    const int state = api.event_query(next.done);
    if (state == CudaApi::kNotReady) break;
    HORING_TRY(api.check(state, formatString("kernels on GPU %d", rank.device->number()).c_str()));
    gpu.ended = next.launches;
  }
  return gpu.ended;
}

std::vector<int> GpuTeam::behind(int number) const {
  // Nothing is ordered by it.
  const auto entered = [this](size_t rank) { return ranks_[rank].entered.load(std::memory_order_relaxed); };
  std::vector<int> behind;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (isHere(static_cast<int>(rank)) && entered(rank) < entered(static_cast<size_t>(number)))
      behind.push_back(static_cast<int>(rank));
  return behind;
}

Result<CudaStream> GpuTeam::ownStream(int number) {
  Rank& rank = at(number);
  const CudaDevice::Current current(*rank.device);
  const CudaApi& api = rank.device->api();
  // Who launches for this rank uses its event, too.
  const std::lock_guard lock(gpus_[rank.gpu]->mutex);
  // After what the default stream was told.
  HORING_TRY(api.check(api.event_record(rank.called, nullptr), "recording an event"));
  HORING_TRY(api.check(api.stream_wait_event(rank.own, rank.called, 0), "ordering two streams"));
  return rank.own;
}

void GpuTeam::abort() {
  // Kernels look at it now and then; nothing is ordered by it.
  if (uint32_t* const flag = abort_.load(std::memory_order_acquire)) cuda::storeFlag(flag, 1);
}

std::vector<ReplayRuns> GpuTeam::replayRuns(int rank) const {
  std::vector<ReplayRuns> runs;
  const std::lock_guard lock(made_mutex_);
  for (const auto& [key, plans] : made_) {
    const cuda::BoundPlan& plan = *(*plans)[static_cast<size_t>(map_->positionOfRank(rank))];
    for (int32_t part = 0; part < plan.parts(); ++part)
      if (const cuda::Activity of_part = plan.runs(part); of_part.begun > 0)
        runs.push_back({of_part.begun, of_part.ended, replayNumber(key, part, 0)});
  }
  return runs;
}

GpuTeam::Ended GpuTeam::outcome() {
  const uint32_t* const flag = abort_.load(std::memory_order_acquire);
  if (!flag || cuda::loadFlagAcquire(flag) == 0) return {};
  const std::lock_guard lock(mutex_);
  const OutsideOfGraphs outside(anyDevice().api());
  Ended ended{makeStatus(Code::kRemoteError, "kernels of this communicator were ended")};
  for (const auto& [key, plans] : plans_)
    for (size_t position = 0; position < plans.size(); ++position) {
      if (!plans[position]) continue;
      cuda::Failure failure;
      const Status outcome = plans[position]->outcome(&failure);
      if (outcome.ok()) continue;
      ended = {makeStatus(outcome.code(), "on the GPU of rank %d: %s", rank_of_position_[position],
                          outcome.message().c_str()),
               failure.call & ~cuda::kInGraph, replayOf(key, failure)};
      // Who was ended says less than who gave up.
      if (outcome.code() != Code::kRemoteError) return ended;
    }
  return ended;
}

uint64_t GpuTeam::memoryBytes(int rank) {
  const std::lock_guard lock(mutex_);
  const uint64_t of_host = remote_ ? remote_->memoryBytes() : 0;
  return of_host + (at(rank).memory ? at(rank).memory->bytes() : 0);
}

}  // namespace horing
