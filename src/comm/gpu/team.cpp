#include "comm/gpu/team.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/check.h"
#include "comm/calls/schedule_proof.h"
#include "control/rank_list.h"
#include "control/root_service.h"
#include "cuda/outside_of_graphs.h"
#include "cuda/reserve.h"
#include "engine/cuda/lane_image.h"
#include "engine/host/plan.h"

namespace horing {

namespace {

constexpr std::chrono::milliseconds kTeamLook{1};

// Collectives and roots always fit; for algorithms see setUp(); run counts wrap around.
constexpr ReplayNumber kMostOfReplays = ReplayNumber::decoded(UINT64_MAX);
static_assert(kCollectives - 1 <= kMostOfReplays.collective);
static_assert(kMaxRanks - 1 <= kMostOfReplays.root);
static_assert(cuda::kMaxParts - 1 <= kMostOfReplays.part);
static_assert(kMostOfReplays.run == ReplayNumber::kRunMask);

ReplayNumber replayNumber(const std::array<int, 3>& key, int32_t part, uint64_t run) {
  return {static_cast<uint32_t>(key[0]), static_cast<uint32_t>(key[1]), static_cast<uint32_t>(key[2]),
          static_cast<uint32_t>(part), static_cast<uint32_t>(run & ReplayNumber::kRunMask)};
}

// The replay in which this failure happened; nothing: a host launch, or overwritten GPU memory.
std::optional<ReplayNumber> replayOf(const std::array<int, 3>& key, const cuda::Failure& failure) {
  if ((failure.call & cuda::kInGraph) == 0 || failure.part < 0 || failure.part >= cuda::kMaxParts)
    return std::nullopt;
  return replayNumber(key, failure.part, failure.run);
}

}  // namespace

// The ports of one rank, by the positions of a schedule.
class GpuTeam::Ports final : public cuda::PortSource {
 public:
  Ports(GpuTeam& team, int32_t position) : team_(team), position_(position) {}
  Result<cuda::Port*> port(const cuda::PortName& name, int32_t part) override {
    HORING_ASSIGN(const TeamMemory::QueueEnds ends,
                  team_.memory_.queue(team_.queueOf(name, position_, part), TeamMemory::QueueUse::kPlan));
    return name.sends() ? ends.send : ends.receive;
  }
  Result<cuda::Activity*> activity(size_t blocks) override {
    return team_.memory_.activity(team_.rank_of_position_[static_cast<size_t>(position_)], blocks);
  }

 private:
  GpuTeam& team_;
  const int32_t position_;
};

GpuTeam::~GpuTeam() {
  // Perhaps only the shared kernels still hold the device; destroy it last.
  const std::shared_ptr<const CudaDevice> device = launches_.anyDevice();
  std::optional<OutsideOfGraphs> outside;
  if (device) outside.emplace(device->api());
  if (launches_.awaitEnd([this] { abort(); })) {
    release();
    if (const CudaReserve::Kept kept = CudaReserve::ofProcess().kept(); kept.of_gpus + kept.pinned > 0)
      log_.info("gpu",
                "%llu MiB of GPUs and %llu MiB of pinned memory are kept for communicators to come, until "
                "none has any",
                static_cast<unsigned long long>(kept.of_gpus >> 20),
                static_cast<unsigned long long>(kept.pinned >> 20));
    return;
  }
  // Earlier work blocks the stream of a launch.
  if (remote_) remote_->leak();
  flags_.leak();
  plans_.clear();
  exchanges_.clear();
  memory_.leak();
  launches_.leak();
}

void GpuTeam::release() {
  // Without one, other ranks of this process may check it concurrently.
  if (remote_) {
    if (auto open_elsewhere = remote_->leave(memory_.takeFrom(remote_->rank())))
      TeamMemory::keepUntilTheEnd(std::move(open_elsewhere));
    remote_.reset();
  }
  plans_.clear();
  exchanges_.clear();
  {
    const std::lock_guard lock(made_mutex_);
    made_.clear();
  }
  memory_.release();
  launches_.release();
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

bool GpuTeam::copies(uint64_t bytes) const {
  // On one GPU copies would read each block again for every rank.
  return !remote_ && !selection_.inOneLaunch(Collective::kAllGather) &&
         bytes >= static_cast<uint64_t>(config_.gpu_copy_bytes);
}

std::vector<int> GpuTeam::missing() const {
  std::vector<int> missing;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].device && isHere(static_cast<int>(rank))) missing.push_back(static_cast<int>(rank));
  return missing;
}

Status GpuTeam::awaitArrivals(int rank, const GpuWaitLimit& limit, std::unique_lock<std::mutex>& lock) {
  while (state_ == State::kGathering && !missing().empty()) {
    changed_.wait_for(lock, kTeamLook);
    lock.unlock();
    HORING_TRY(limit.news());
    lock.lock();
    if (limit.deadline.passed() && !missing().empty())
      return makeStatus(Code::kTimeout,
                        "rank %d: rank(s) %s of this process never came with an operation on a GPU "
                        "(HORING_TIMEOUT_MS). Calls of one thread for several ranks belong into a group",
                        rank, rankList(missing()).c_str());
  }
  return {};
}

Result<bool> GpuTeam::serves(const Member& member, const GpuWaitLimit& limit) {
  std::unique_lock lock(mutex_);
  bool has_kernels = true;
  if (state_ == State::kGathering) {
    const OutsideOfGraphs outside(at(member.rank).device->api());
    const Status loads = launches_.load(member.rank, at(member.rank).device);
    has_kernels = loads.ok();
    if (!loads.ok() && cuda::laneImageVersion()) warnOfHosts(member.log, loads);
    // A local failure settles it without waiting for the others.
    if (!loads.ok() && !remote_) stage(member, loads);
  }
  HORING_TRY(awaitArrivals(member.rank, limit, lock));
  if (state_ == State::kGathering) {
    config_ = member.config;
    map_ = member.map;
    log_ = member.log;
    const OutsideOfGraphs outside(at(member.rank).device->api());
    Status made = setUp();
    if (remote_) {
      const Rank& own = at(member.rank);
      const int blocks = made.ok() ? launches_.residentBlocks() : 0;
      HORING_ASSIGN(const RemoteGpus::Verdict verdict,
                    remote_->agree({own.device, made, memory_.of(member.rank), blocks, abort_.load(),
                                    member.news, member.timeout_ms}));
      made = verdict.why_not;
      if (made.ok()) adopt(verdict.terms);
      // Queues of messages have reserved memory: a failure could not be reported later.
      if (made.ok()) HORING_TRY(makeExchanges());
    }
    if (made.ok()) {
      state_ = State::kKernels;
      // With spare queues a single lane has nearly as many blocks as two lanes together, and is faster; without, two overlapping lanes are.
      window_bytes_ = memory_.spareQueues().areAny() && !settings_.hosts_carry
                          ? SIZE_MAX
                          : ranks_.size() * static_cast<size_t>(std::min(blocksPerLane(1), settings_.parts)) *
                                static_cast<size_t>(settings_.window) * settings_.slot_bytes;
      log_.info("gpu",
                "kernels serve operations on GPUs: %zu MiB of each rank's, slots of %u KiB, %d parts%s",
                TeamMemory::kBytes >> 20, settings_.slot_bytes >> 10, settings_.parts,
                memory_.spareQueues().areAny() ? ", of rings more" : "");
      if (copies(UINT64_MAX))
        log_.info("gpu", "all-gathers of %lld bytes from each rank and more are copies between GPUs",
                  static_cast<long long>(config_.gpu_copy_bytes));
    } else {
      // Among threads only one comes here.
      if (has_kernels && (!remote_ || member.rank == 0)) warnOfHosts(member.log, made);
      stage(member, made);
    }
  }
  at(member.rank).is_served = state_ == State::kKernels;
  return at(member.rank).is_served;
}

void GpuTeam::stage(const Member& member, const Status& why) {
  state_ = State::kStaged;
  member.log.info("gpu", "operations on GPUs go through memory of the host: %s", why.message().c_str());
  release();
  changed_.notify_all();
}

Status GpuTeam::setUp() {
  HORING_CHECK_LE(algorithmCatalogue().size() - 1, size_t{kMostOfReplays.algorithm});
  for (int position = 0; position < map_->ranks(); ++position)
    rank_of_position_.push_back(map_->rankOfPosition(position));
  TeamMemory::Devices devices;
  for (const Rank& rank : ranks_) devices.push_back(rank.device);
  HORING_TRY(launches_.setUp(devices));
  settings_.in_one_launch = launches_.isOneLaunch();
  HORING_ASSIGN(selection_, KernelSelection::make(config_, *map_, settings_.in_one_launch));
  for (int number = 0; number < kCollectives; ++number) {
    const auto collective = static_cast<Collective>(number);
    if (const Selection* const chosen = selection_.inOneLaunch(collective))
      log_.info("gpu", "%s of ranks that all share a GPU is %s, in one launch", collectiveName(collective),
                chosen->algorithm->name);
  }
  return setUpMemory(devices);
}

// Takes over the agreed terms.
void GpuTeam::adopt(const GpuTerms& terms) {
  most_blocks_ = terms.most_blocks;
  resident_blocks_ = terms.resident_blocks;
  memory_.adoptQueues();
  settings_.slot_bytes = memory_.shape().slot_bytes;
  settings_.parts = memory_.parts();
  settings_.hosts_carry = !remote_->areAllNeighbors();
}

Status GpuTeam::setUpMemory(const TeamMemory::Devices& devices) {
  HORING_TRY(memory_.take(devices));
  // Always on the same device, so that the next team finds the memory in the reserve.
  const auto& first = *std::find_if(devices.begin(), devices.end(), [](const auto& each) { return each; });
  HORING_ASSIGN(flags_, PinnedMemory::allocate(first, sizeof(uint32_t)));
  auto* const flag = reinterpret_cast<uint32_t*>(flags_.data());
  *flag = 0;
  abort_.store(flag, std::memory_order_release);
  settings_.window = static_cast<int32_t>(config_.window);
  most_blocks_ = static_cast<int>(config_.gpu_blocks);
  settings_.hosts_carry = remote_ != nullptr;  // until reachability is known
  if (remote_) return {};
  HORING_TRY(memory_.provePeerAccess(devices));
  HORING_TRY(memory_.shapeQueues(settings_.window));
  settings_.slot_bytes = memory_.shape().slot_bytes;
  settings_.parts = memory_.parts();
  return {};
}

GpuQueueName GpuTeam::queueOf(const cuda::PortName& port, int32_t position, int32_t part) const {
  const auto rankAt = [this](int32_t at) { return rank_of_position_[static_cast<size_t>(at)]; };
  const int own = rankAt(position);
  if (port.queue >= 0) return {own, own, kLinkChannels + port.queue, part};
  const int peer = rankAt(port.position);
  return {port.sends() ? own : peer, port.sends() ? peer : own, port.channel, part};
}

bool GpuTeam::isSettled() {
  const std::lock_guard lock(mutex_);
  return state_ != State::kGathering;
}

Result<const GpuTeam::Plans*> GpuTeam::plans(Collective collective, const Selection& selection, int root) {
  HORING_CHECK(root >= 0 && static_cast<size_t>(root) < ranks_.size());
  const PlanKey key{static_cast<int>(collective),
                    static_cast<int>(selection.algorithm - algorithmCatalogue().data()), root};
  const std::lock_guard lock(mutex_);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    const OutsideOfGraphs outside(launches_.anyDevice()->api());
    memory_.begin();
    Result<Draft> draft = draftPlans(collective, selection, root);
    Result<Plans> made = draft.ok() ? bindPlans(draft.value()) : Result<Plans>(draft.status());
    // All ranks have the same draft, and none waits for another here; the kernels do.
    if (remote_ && draft.ok()) HORING_TRY(made.status());
    if (!made.ok()) {
      log_.info("gpu", "%s %s goes through memory of the host: %s", selection.algorithm->name,
                collectiveName(collective), made.status().message().c_str());
      HORING_TRY(memory_.giveBack());
    }
    memory_.keep();
    found = plans_.emplace(key, made.ok() ? made.take() : Plans()).first;
    tellOf(found->second);
    const std::lock_guard made_lock(made_mutex_);
    if (!found->second.empty()) made_.emplace(key, &found->second);
  }
  return found->second.empty() ? nullptr : &found->second;
}

void GpuTeam::tellOf(const Plans& plans) const {
  for (const auto& plan : plans) {
    if (!plan) continue;
    const Schedule& schedule = plan->schedule();
    return log_.info("gpu", "%s %s is kernels of %d lanes x %d parts", schedule.algorithm.c_str(),
                     collectiveName(schedule.collective), plan->lanes(), plan->parts());
  }
}

// The most parts with which every block of every rank is resident at once, since blocks wait for each other, within HORING_GPU_BLOCKS; 0:
// not even one fits.
int32_t GpuTeam::partsFor(const Selection& selection, const std::vector<Schedule>& schedules) {
  // In one launch of all ranks these have no queues, and no block waits for another.
  if (selection.algorithm->reachesPeers()) return std::clamp(most_blocks_, 1, cuda::kMaxParts);
  size_t lanes = 1;
  for (const Schedule& schedule : schedules) lanes = std::max(lanes, schedule.lanes.size());
  const int32_t blocks = std::min(blocksPerLane(lanes), memory_.mostParts());
  if (blocks <= settings_.parts || !memory_.spareQueues().areAny()) return std::min(blocks, settings_.parts);
  const auto queues = narrowQueues(schedules);
  return queues ? memory_.spareQueues().take(*queues, settings_.parts, blocks) : settings_.parts;
}

// The queues of all ranks in one part. Nothing if a lane sends to several ranks, or receives from several, unlike in rings and chains: such
// schedules, whose messages are often too small for many parts, would use up all spare queues.
std::optional<std::vector<GpuQueueName>> GpuTeam::narrowQueues(const std::vector<Schedule>& schedules) const {
  std::vector<GpuQueueName> queues;
  for (size_t position = 0; position < schedules.size(); ++position)
    for (const cuda::ImageLane& lane :
         cuda::PlanImage::make(schedules[position], rank_of_position_, {}).lanes) {
      for (const auto kind : {cuda::PortName::Kind::kSend, cuda::PortName::Kind::kReceive})
        if (std::ranges::count(lane.ports, kind, &cuda::PortName::kind) > 1) return std::nullopt;
      for (const cuda::PortName& port : lane.ports)
        if (!port.sends()) queues.push_back(queueOf(port, static_cast<int32_t>(position), 0));
    }
  return queues;
}

int32_t GpuTeam::blocksPerLane(size_t lanes) const {
  const auto granted = std::max<size_t>(static_cast<size_t>(most_blocks_) / lanes, 1);
  const int resident = remote_ ? resident_blocks_ : launches_.residentBlocks();
  return static_cast<int32_t>(std::min(granted, static_cast<size_t>(resident) / lanes));
}

Result<GpuTeam::Draft> GpuTeam::draftPlans(Collective collective, const Selection& selection, int root) {
  const int32_t root_position = hasRoot(collective) ? map_->positionOfRank(root) : 0;
  const auto name = std::string(selection.algorithm->name);
  Draft draft{{}, settings_};
  std::vector<Schedule>& schedules = draft.schedules;
  for (int32_t position = 0; position < selection.shape.ranks(); ++position) {
    HORING_ASSIGN(Schedule schedule,
                  buildSchedule(name, collective, selection.shape, position, root_position));
    schedules.push_back(std::move(schedule));
  }
  PlanParameters parameters;
  parameters.slices = representativeSlices(kMaxSlices, settings_.window);
  parameters.window = {settings_.window};
  parameters.slots = static_cast<int32_t>(memory_.shape().slots);
  parameters.scratch_slices = static_cast<int32_t>(memory_.shape().slots);
  if (selection.shape.ranks() <= kMostRanksProven) HORING_TRY(proveSchedules(schedules, parameters));
  draft.settings.parts = partsFor(selection, schedules);
  if (draft.settings.parts == 0)
    return makeStatus(Code::kInvalidUsage,
                      "the blocks of %s %s of all ranks that share a GPU are not resident at once",
                      name.c_str(), collectiveName(collective));
  if (remote_ && !room_.take(schedules, rank_of_position_, draft.settings.parts))
    return makeStatus(
        Code::kUnhandledCudaError,
        "its plan does not fit in the memory for plans of each rank's GPU, or its messages in the pinned "
        "memory for proxies, or it has lanes of more than %d queues",
        cuda::kMaxPortsOfLane);
  return draft;
}

Result<GpuTeam::Plans> GpuTeam::bindPlans(Draft& draft) {
  Plans plans;
  for (size_t position = 0; position < draft.schedules.size(); ++position) {
    if (!isHere(rank_of_position_[position])) {
      plans.emplace_back();
      continue;
    }
    Ports ports(*this, static_cast<int32_t>(position));
    cuda::Memory& memory = *memory_.of(rank_of_position_[position]);
    HORING_ASSIGN(auto plan, cuda::BoundPlan::make(std::move(draft.schedules[position]), draft.settings,
                                                   rank_of_position_, map_->railMajorBlocks(), abort_.load(),
                                                   memory, ports));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Result<const cuda::BoundExchange*> GpuTeam::exchange(int rank) {
  const std::lock_guard lock(mutex_);
  if (!at(rank).is_served) return nullptr;
  if (!has_exchanges_) {
    const OutsideOfGraphs outside(launches_.anyDevice()->api());
    HORING_TRY(makeExchanges());
  }
  return exchanges_.empty() ? nullptr : exchanges_[static_cast<size_t>(rank)].get();
}

// Among threads, for all ranks or none.
Status GpuTeam::makeExchanges() {
  has_exchanges_ = true;
  const int blocks = std::min(most_blocks_, remote_ ? resident_blocks_ : launches_.residentBlocks());
  bridged_exchange_parts_ = remote_ ? remote_->bridgedMessageParts() : 0;
  const bool reaches_all = !remote_ || bridged_exchange_parts_ > 0;
  const size_t peers = reaches_all ? ranks_.size() - 1 : remote_->mostNeighbors();
  cuda::BoundExchangeSettings settings;
  settings.parts = cuda::exchangeParts(peers, settings_.parts, blocks);
  bridged_exchange_parts_ = std::min(bridged_exchange_parts_, settings.parts);
  settings.most_blocks = blocks;
  settings.hosts_carry = settings_.hosts_carry;
  if (remote_)
    room_ = remote_->planRoom(cuda::BoundExchange::needsOf(ranks_.size(), settings),
                              static_cast<size_t>(settings.most_blocks));
  if (ranks_.size() == 1) return {};
  // Ranks that share a GPU are launched together, but sends and receives are calls of one rank.
  const char* const why_not = launches_.sharesGpus() ? "ranks share a GPU"
                              : !reaches_all && remote_->neighbors() == 0
                                  ? "this rank's GPU reaches no other's memory"
                              : settings.parts == 0 ? "too many ranks reach each other"
                                                    : nullptr;
  if (why_not) {
    log_.info("gpu", "sends and receives go through memory of the host: %s", why_not);
    return {};
  }
  memory_.begin();
  Status made;
  for (int rank = 0; made.ok() && rank < static_cast<int>(ranks_.size()); ++rank) {
    exchanges_.emplace_back();
    if (!isHere(rank)) continue;
    Result<std::unique_ptr<cuda::BoundExchange>> exchange = makeExchange(rank, settings);
    made = exchange.status();
    if (made.ok()) exchanges_.back() = exchange.take();
  }
  if (made.ok() || remote_) return made;
  log_.info("gpu", "sends and receives go through memory of the host: %s", made.message().c_str());
  exchanges_.clear();
  return memory_.giveBack();
}

Result<std::unique_ptr<cuda::BoundExchange>> GpuTeam::makeExchange(
    int rank, const cuda::BoundExchangeSettings& settings) {
  std::vector<cuda::Port*> ports;
  for (int peer = 0; peer < static_cast<int>(ranks_.size()); ++peer)
    for (const bool sends : {false, true})
      for (int32_t part = 0; part < settings.parts; ++part) {
        if (peer == rank || (remote_ && !remote_->isNeighbor(peer))) {
          ports.push_back(nullptr);
          continue;
        }
        HORING_ASSIGN(cuda::Port* const port, portOfMessages(rank, peer, sends, part));
        ports.push_back(port);
      }
  cuda::Activity* activity = nullptr;
  if (remote_) {
    HORING_ASSIGN(activity, remote_->activityOfMessages(static_cast<size_t>(settings.most_blocks)));
  }
  return cuda::BoundExchange::make(ports, settings, {abort_.load(), activity}, *memory_.of(rank));
}

Result<cuda::Port*> GpuTeam::portOfMessages(int rank, int peer, bool sends, int32_t part) {
  const GpuQueueName name = sends ? GpuQueueName{rank, peer, 0, part} : GpuQueueName{peer, rank, 0, part};
  HORING_ASSIGN(const TeamMemory::QueueEnds ends, memory_.queue(name, TeamMemory::QueueUse::kMessages));
  return sends ? ends.send : ends.receive;
}

Status GpuTeam::connectMessages(int rank, std::span<const Transfer> transfers) {
  if (!remote_ || remote_->areAllNeighbors()) return {};
  const std::lock_guard lock(mutex_);
  const OutsideOfGraphs outside(launches_.anyDevice()->api());
  cuda::BoundExchange& exchange = *exchanges_[static_cast<size_t>(rank)];
  for (const Transfer& each : transfers) {
    const bool sends = each.direction() == Transfer::Direction::kSend;
    const int32_t flow = cuda::BoundExchange::flowNumber(each.peer, sends);
    if (exchange.isConnected(flow)) continue;
    std::vector<cuda::Port*> ports;
    for (int32_t part = 0; part < bridged_exchange_parts_; ++part) {
      HORING_ASSIGN(cuda::Port* const port, portOfMessages(rank, each.peer, sends, part));
      ports.push_back(port);
    }
    HORING_TRY(exchange.connect(flow, ports));
  }
  return {};
}

void GpuTeam::abort() {
  // Kernels poll it; no other data depends on it.
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
  const OutsideOfGraphs outside(launches_.anyDevice()->api());
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
      ended.timeout_ms = static_cast<int64_t>(failure.timeout_ns / 1'000'000);
      // Prefer the error of a rank that gave up to the error of one that was ended.
      if (outcome.code() != Code::kRemoteError) return ended;
    }
  for (size_t rank = 0; rank < exchanges_.size(); ++rank) {
    if (!exchanges_[rank]) continue;
    cuda::ExchangeFailure failure;
    const Status outcome = exchanges_[rank]->outcome(&failure);
    if (outcome.ok()) continue;
    ended = {makeStatus(outcome.code(), "on the GPU of rank %zu: %s", rank, outcome.message().c_str())};
    ended.rank = static_cast<int>(rank);
    ended.timeout_ms = static_cast<int64_t>(failure.timeout_ns / 1'000'000);
    if (failure.call != cuda::kNoCall && (failure.call & cuda::kInGraph) == 0) ended.launch = failure.call;
    if (outcome.code() != Code::kRemoteError) return ended;
  }
  return ended;
}

uint64_t GpuTeam::memoryBytes(int rank) {
  const std::lock_guard lock(mutex_);
  const uint64_t of_host = remote_ ? remote_->memoryBytes() : 0;
  return of_host + (memory_.of(rank) ? memory_.of(rank)->bytes() : 0);
}

}  // namespace horing
