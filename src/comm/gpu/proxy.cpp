#include "comm/gpu/proxy.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/no_memory.h"
#include "comm/links/link_shape.h"
#include "engine/cuda/device.h"

namespace horing {

namespace {

constexpr int64_t kLookNs = 2'000'000;  // between two checks for news
// Sleep between polls. While kernels run, which send no wake-up: an eighth of the time waited so far, at least the first value and at most
// the second. While kernels may run: the second.
constexpr std::chrono::microseconds kShortWatch{100}, kWatch{1000};
// A kernel without progress for this long waits for a failed link.
constexpr int64_t kStalledNs = 1'000'000'000;

Connector makeConnector(GpuProxyOptions& options) {
  // First, since arguments are evaluated in any order.
  std::vector<LinkShape> shapes(options.transports.size(), options.shape);
  for (size_t t = 0; t < shapes.size(); ++t)
    if (isBetweenNodes(options.transports[t]->name())) shapes[t].slots = options.queue_slots;
  return {options.rank, std::move(shapes), std::move(options.transports)};
}

}  // namespace

GpuProxy::GpuProxy(GpuProxyOptions options)
    : options_(std::move(options)), connector_(makeConnector(options_)) {}

Status GpuProxy::start(std::vector<int> transport_of_rank) {
  connector_.setChoices(std::move(transport_of_rank));
  bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_.valid()) return systemError(errno, "eventfd");
  waiter_ = std::make_unique<Waiter>(options_.wait);
  waiter_->watch(bell_.get());
  for (const auto& transport : connector_.transports())
    transport_places_.push_back(waiter_->watch(transport->waitFd()));
  return thread_.start("the proxy of a GPU", [this] { serve(); });
}

GpuProxy::~GpuProxy() {
  thread_.end([this] { stop(); });
}

void GpuProxy::stop() {
  if (!thread_.started() || thread_.isOfParent()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ring();
}

void GpuProxy::ring() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      ::write(bell_.get(), &one, sizeof one);  // if full, a wake-up is pending
}

void GpuProxy::add(const Lane& lane) {
  const std::lock_guard lock(mutex_);
  added_.push_back(lane);
}

void GpuProxy::watch(std::span<const cuda::Activity> blocks) {
  const std::lock_guard lock(mutex_);
  added_activities_.push_back(blocks);
}

void GpuProxy::launched(Launch launch, uint64_t blocks) {
  if (launch == Launch::kReplayed) {
    replays_.store(true, std::memory_order_relaxed);
  } else {
    launched_.fetch_add(blocks, std::memory_order_relaxed);
  }
  ring();
}

void GpuProxy::watchMessages(const cuda::Activity* block) {
  const std::lock_guard lock(mutex_);
  messages_ = block;
}

void GpuProxy::launchedMessages(std::vector<int> peers) {
  const std::lock_guard lock(mutex_);
  if (!messages_) return;
  const uint64_t ended = cuda::loadAcquire(&messages_->ended);
  while (!launched_messages_.empty() && launched_messages_.front().number <= ended)
    launched_messages_.pop_front();
  launched_messages_.push_back({++messages_launched_, std::move(peers)});
}

// The peers of the running message kernel, if any. Replays are not recorded as launches.
std::vector<int> GpuProxy::peersOfMessages() {
  if (replays_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex_);
  if (!messages_) return {};
  const uint64_t ended = cuda::loadAcquire(&messages_->ended);
  if (cuda::loadAcquire(&messages_->begun) == ended) return {};
  for (const Messages& each : launched_messages_)
    if (each.number == ended + 1) return each.peers;
  return {};
}

void GpuProxy::serve() {
  bool ran_out = false, told = false;  // of memory
  while (!isOver()) {
    ran_out = !withoutExceptions([this] { turn(); }).ok() || ran_out;
    if (ran_out && !told) told = withoutExceptions([this] { options_.fail(noMemory()); }).ok();
  }
}

void GpuProxy::turn() {
  takeNew();
  drive();
  if (carry()) {
    idle_since_ns_ = 0;
    options_.moved_ns->store(clock_.nowNs(), std::memory_order_relaxed);
    waiter_->progressed();
    return;
  }
  const int64_t now_ns = clock_.nowNs();
  if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
  if (now_ns - looked_ns_ >= kLookNs) lookAround(now_ns);
  if (waiter_->idle(now_ns) == Waiter::Step::kBlock) sleep();
}

bool GpuProxy::isOver() {
  if (!stopping_) return false;
  return ended_ || cuda::loadFlag(options_.abort) != 0 || flushed() || clock_.nowNs() > stop_at_ns_;
}

void GpuProxy::takeNew() {
  const std::lock_guard lock(mutex_);
  for (const Lane& lane : added_) {
    Carried& each = links_[{lane.peer, lane.link}];
    each.lanes.push_back(lane);
    if (each.link || !each.failed.ok()) continue;
    const LinkSet links{collectiveLink(lane.link), {lane.peer}};
    each.failed = connector_.begin(links);
    if (each.failed.ok()) each.link = &connector_.link(links.use, lane.peer);
  }
  added_.clear();
  activities_.insert(activities_.end(), added_activities_.begin(), added_activities_.end());
  added_activities_.clear();
  if (stop_ && !stopping_) {
    stopping_ = true;
    stop_at_ns_ = clock_.nowNs() + options_.timeout_ms() * 1'000'000;
  }
}

// progress() keeps reporting the error of one link: the other links go on.
void GpuProxy::drive() {
  const Status status = connector_.progress(connector_.allTransports());
  if (status.ok()) return;
  bool is_of_link = false;
  for (auto& [name, each] : links_) {
    // For a departed peer, an error only says that its link was polled after the end.
    if (each.failed.ok() && each.link && !each.hasLeft()) each.failed = each.link->status();
    is_of_link |= each.isGone();
  }
  if (is_of_link) return;
  for (auto& [name, each] : links_) each.failed = status;
}

bool GpuProxy::carry() {
  bool moved = false;
  for (auto& [name, each] : links_) {
    if (!each.failed.ok()) continue;
    if (!each.lanes.empty() && !bindLanes(each)) continue;
    if (!each.hasLeft())
      for (cuda::OutgoingBridge& bridge : each.outgoing) moved |= bridge.poll();
    for (cuda::IncomingBridge& bridge : each.incoming) {
      moved |= bridge.poll();
      if (!bridge.status().ok()) each.failed = bridge.status();
    }
  }
  return moved;
}

bool GpuProxy::bindLanes(Carried& each) {
  if (!each.link->established()) return false;
  for (const Lane& lane : each.lanes)
    if (each.failed.ok()) each.failed = bind(each, lane);
  each.lanes.clear();
  memory_bytes_.store(connector_.memoryBytes(), std::memory_order_relaxed);
  return each.failed.ok();
}

Status GpuProxy::bind(Carried& each, const Lane& lane) const {
  Link& link = *each.link;
  const bool is_in_place =
      lane.sends ? each.outgoing.emplace_back(lane.end, link.sender(lane.channel), lane.slots).isInPlace()
                 : each.incoming.emplace_back(lane.end, link.receiver(lane.channel), lane.slots).isInPlace();
  if (is_in_place || lane.slots == MemoryOf::kHost) return {};
  return makeStatus(Code::kSystemError,
                    "kernels of rank %d keep their messages with rank %d in GPU memory, for RDMA, and %s "
                    "took its place: repair RDMA (the log says why it failed), or set "
                    "HORING_IB_REGISTERED_MB=0, which keeps them in host memory",
                    options_.rank, lane.peer, link.describe().c_str());
}

bool GpuProxy::flushed() {
  const auto isFlushed = [](auto& bridge) { return bridge.flushed(); };
  return std::all_of(links_.begin(), links_.end(), [&](auto& entry) {
    Carried& each = entry.second;
    if (each.isGone()) return true;
    return std::none_of(each.lanes.begin(), each.lanes.end(),
                        [](Lane& lane) { return lane.sends && lane.end.canReceive(); }) &&
           std::all_of(each.outgoing.begin(), each.outgoing.end(), isFlushed) &&
           std::all_of(each.incoming.begin(), each.incoming.end(), isFlushed);
  });
}

bool GpuProxy::connects() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& entry) { return !entry.second.isGone() && !entry.second.lanes.empty(); });
}

bool GpuProxy::underWay() const {
  const auto runs = [](const cuda::Activity& block) {
    return cuda::loadAcquire(&block.begun) != cuda::loadAcquire(&block.ended);
  };
  return std::any_of(activities_.begin(), activities_.end(),
                     [&](const auto& blocks) { return std::any_of(blocks.begin(), blocks.end(), runs); });
}

bool GpuProxy::expectsKernels() const {
  if (replays_.load(std::memory_order_relaxed)) return true;
  // Some blocks may not have begun when others have ended.
  uint64_t ended = 0;
  for (const auto& blocks : activities_)
    for (const cuda::Activity& block : blocks) ended += cuda::loadAcquire(&block.ended);
  return ended < launched_.load(std::memory_order_relaxed);
}

void GpuProxy::lookAround(int64_t now_ns) {
  looked_ns_ = now_ns;
  const bool runs = underWay();
  // Time without a running kernel does not count.
  if (!runs) idle_since_ns_ = now_ns;
  if (ended_ || (!runs && !stopping_ && cuda::loadFlag(options_.abort) == 0)) return;
  ended_ = !options_.news().ok();
  const int64_t stalled_ns =
      now_ns - std::max(idle_since_ns_, options_.moved_ns->load(std::memory_order_relaxed));
  if (ended_ || !runs || stalled_ns < kStalledNs) return;
  if (const Status missing = whatIsMissing(stalled_ns); !missing.ok()) options_.fail(missing);
}

// The error for stalled kernels whose data will never arrive.
Status GpuProxy::whatIsMissing(int64_t stalled_ns) {
  for (const auto& [name, each] : links_) {
    if (!each.failed.ok()) return each.failed;
    // Kernels may wait for another, late rank. Whether a departed rank is missing from host launches is known from the call ledger.
    if (each.hasLeft() && replays_.load(std::memory_order_relaxed) &&
        stalled_ns >= options_.left_ms * 1'000'000)
      return makeStatus(
          Code::kRemoteError,
          "rank %d has left (it destroyed or aborted its communicator), and kernels of rank %d that talk to "
          "other nodes have not got on for %lld ms since: all ranks must be done with graphs before one "
          "leaves",
          name.peer, options_.rank, static_cast<long long>(options_.left_ms));
  }
  // Messages use the first link to a rank and are not in the ledger; a departed rank sends none.
  const std::vector<int> peers = peersOfMessages();
  const auto hasLeft = [this](int rank) {
    const auto first = links_.find({rank, 0});
    return first != links_.end() && first->second.hasLeft();
  };
  if (peers.empty() || !std::all_of(peers.begin(), peers.end(), hasLeft)) return {};
  return makeStatus(Code::kRemoteError,
                    "rank %d left (it destroyed or aborted its communicator) while rank %d still exchanges "
                    "messages with it",
                    peers.front(), options_.rank);
}

void GpuProxy::sleep() {
  const uint32_t all = connector_.allTransports();
  std::chrono::microseconds nap = std::chrono::milliseconds(options_.sleep_ms);
  if (!ended_ && underWay())
    nap =
        std::clamp(std::chrono::microseconds((clock_.nowNs() - idle_since_ns_) / 8000), kShortWatch, kWatch);
  else if (!ended_ && (stopping_ || expectsKernels() || connects() || !flushed()))
    nap = kWatch;
  connector_.beginWait(all);
  drive();
  for (size_t i = 0; i < transport_places_.size(); ++i)
    waiter_->replace(transport_places_[i], connector_.transports()[i]->waitFd());
  if (!carry()) waiter_->block(nap);
  connector_.endWait(all);
  uint64_t rung = 0;
  [[maybe_unused]] const ssize_t taken = ::read(bell_.get(), &rung, sizeof rung);
}

}  // namespace horing
