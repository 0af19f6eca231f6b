#include "comm/gpu/remote_gpus.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/fields.h"
#include "base/quotient.h"
#include "engine/cuda/exchange_call.h"
#include "engine/cuda/pinned_memory.h"
#include "engine/cuda/queue_shape.h"

namespace horing {

namespace {

std::string troubleOf(const Status& status) {
  if (status.ok()) return {};
  const std::string& why = status.message();
  return why.empty() ? "unknown" : why;
}

int proxiesFor(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  const auto wanted = static_cast<int>(membership.options().config.gpu_proxies);
  if (wanted > 0) return wanted;
  int least = cuda::kMaxPartsOfLink;
  for (const auto& [boot_id, load] : membership.placement().kernels())
    least = std::min(least, load.cores / load.ranks / GpuProxies::kCoresOfProxy);
  return std::max(least, 1);
}

std::vector<std::string> nodesOf(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  std::vector<std::string> nodes;
  for (int rank = 0; rank < membership.ranks(); ++rank)
    nodes.push_back(membership.placement().identityOf(rank).nodeLabel());
  return nodes;
}

std::set<int> ranksOfThisProcess(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  const std::string own = membership.placement().identityOf(membership.rank()).processLabel();
  std::set<int> ranks;
  for (int rank = 0; rank < membership.ranks(); ++rank)
    if (membership.placement().identityOf(rank).processLabel() == own) ranks.insert(rank);
  return ranks;
}

}  // namespace

void warnOfHosts(const Log& log, const Status& why) {
  log.warn("gpu", "operations on GPUs are slow, for they go through memory of the host: %s",
           why.message().c_str());
}

std::unique_ptr<RemoteGpus> RemoteGpus::of(Communicator& communicator) {
  if (!whyNot(communicator).ok()) return nullptr;
  return std::unique_ptr<RemoteGpus>(new RemoteGpus(communicator));
}

// Kernels of two ranks of one process that share a GPU could deadlock on a hardware queue, even under MPS.
Status RemoteGpus::whyNot(const Communicator& communicator) {
  const std::span<const HostIdentity> ranks = communicator.membership().placement().identities();
  std::map<std::string, std::vector<const HostIdentity*>> processes;
  for (const HostIdentity& rank : ranks) processes[rank.processLabel()].push_back(&rank);
  if (processes.size() == ranks.size()) return {};
  for (const auto& [process, threads] : processes) {
    std::set<CudaUuid> gpus;
    for (const HostIdentity* const rank : threads)
      if (threads.size() > 1 && (!rank->gpu || !gpus.insert(rank->gpu->uuid).second))
        return makeStatus(Code::kInvalidUsage,
                          "rank %td is one of %zu ranks of a process that met by ID, and %s: make a GPU of "
                          "its own current (cudaSetDevice) before each rank's horingCommInitRank or, if "
                          "ranks share GPUs, make all by horingCommInitAll",
                          rank - ranks.data(), threads.size(),
                          rank->gpu ? "its GPU is also another rank's" : "had no GPU current then");
  }
  // One thread may call for several ranks, which could not agree later.
  return mayHaveTerms(ranks);
}

RemoteGpus::RemoteGpus(Communicator& communicator)
    : communicator_(communicator),
      neighbors_(communicator.membership().rank(), GpuMailboxes(nodesOf(communicator)),
                 ranksOfThisProcess(communicator)),
      sizes_(GpuQueueSizes::choose(neighbors_.mailboxes(),
                                   static_cast<size_t>(communicator.membership().ranks()),
                                   static_cast<int32_t>(communicator.membership().options().config.window))),
      parts_(sizes_.parts),
      proxy_count_(std::min(proxiesFor(communicator), sizes_.bridged_parts)) {
  neighbors_.mailboxes().setShape(sizes_.shape, cuda::bridgeChannel(0, parts_), sizes_.spare_bytes);
}

Result<RemoteGpus::Blobs> RemoteGpus::gather(std::span<const std::byte> mine, const Own& own) const {
  return membership_.exchangeFacts(mine, own.timeout_ms);
}

Result<GpuOffer> RemoteGpus::setUp(const Own& own) {
  HORING_TRY(own.made);
  const Config& config = membership_.options().config;
  GpuOffer offer;
  HORING_ASSIGN(offer.gpu, own.device->uuid());
  offer.has_mps = own.device->hasMps();
  offer.resident_blocks = static_cast<uint32_t>(own.resident_blocks);
  offer.most_blocks = static_cast<uint32_t>(config.gpu_blocks);
  device_ = own.device;
  HORING_ASSIGN(told_, cuda::makePinnedMemory(device_, GpuQueueSizes::kToldBytes));
  HORING_TRY(makeProxies(own));
  offer.addresses = proxies_->addresses();
  offer.memory = neighbors_.offer(own.device, *own.memory, membership_.log());
  return offer;
}

Status RemoteGpus::makeProxies(const Own& own) {
  std::vector<std::unique_ptr<GpuProxy>> proxies;
  const auto parts_of_link = static_cast<int32_t>(
      quotientUp(static_cast<size_t>(sizes_.bridged_parts), static_cast<size_t>(proxy_count_)));
  const auto moved_ns = std::make_shared<std::atomic<int64_t>>(0);
  for (int i = 0; i < proxy_count_; ++i) {
    GpuProxyOptions options;
    options.rank = rank();
    HORING_ASSIGN(options.transports, membership_.makeTransports(formatString("kernels %d", i)));
    const auto window = static_cast<uint32_t>(membership_.options().config.window);
    options.shape = {cuda::bridgeChannel(0, parts_of_link), window + 1, sizes_.shape.slot_bytes};
    options.queue_slots = sizes_.bridged_shape.slots;
    options.moved_ns = moved_ns;
    options.wait = communicator_.choices().wait;
    options.timeout_ms = [this] { return communicator_.timeoutMs(); };
    options.abort = own.abort;
    options.news = own.news;
    options.fail = [this](const Status& status) { membership_.control().announceError(status); };
    proxies.push_back(std::make_unique<GpuProxy>(std::move(options)));
  }
  proxies_ = std::make_unique<GpuProxies>(std::move(proxies), parts_of_link);
  return {};
}

Result<RemoteGpus::Verdict> RemoteGpus::agree(const Own& own) {
  Result<GpuOffer> mine = setUp(own);
  if (!mine.ok()) {
    const std::string why = troubleOf(mine.status());
    mine = GpuOffer();
    mine.value().trouble = why;
  }
  HORING_ASSIGN(const Blobs blobs, gather(encodeFields(mine.value()), own));
  std::vector<GpuOffer> offers;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    HORING_ASSIGN(GpuOffer offer, decodeGpuOffer(blobs[rank], static_cast<int>(rank)));
    offers.push_back(std::move(offer));
  }
  Verdict verdict;
  Result<GpuTerms> terms = termsOf(offers);
  verdict.why_not = terms.status();
  if (terms.ok()) {
    verdict.terms = terms.value();
    // The same on all ranks: if no rank offers memory, no rank opens any.
    const bool is_shared = std::any_of(offers.begin(), offers.end(),
                                       [](const GpuOffer& offer) { return offer.memory.has_value(); });
    if (is_shared) HORING_TRY(openNeighbors(offers, own));
    HORING_ASSIGN(Blobs told, gather(reach(offers), own));
    verdict.why_not = meet(std::move(told));
    // A rank that must free memory waits here until peers have closed it.
    HORING_ASSIGN(const Blobs started, gather(encodeFields(start(own, verdict.why_not)), own));
    Result<std::vector<GpuReady>> ready = decodeGpusReady(started);
    if (verdict.why_not.ok()) verdict.why_not = ready.status();
    if (ready.ok()) ready_ = ready.take();
    if (is_shared) neighbors_.forgetClosed();
  } else {
    neighbors_.forgetClosed();
  }
  if (!verdict.why_not.ok()) {
    proxies_.reset();
    told_.reset();
    queues_.reset();
  }
  return verdict;
}

Status RemoteGpus::openNeighbors(const std::vector<GpuOffer>& offers, const Own& own) {
  neighbors_.open(offers, membership_.log());
  HORING_ASSIGN(Blobs opened,
                gather(TransportReach::encode(rank(), membership_.ranks(), 1,
                                              [&](int peer, size_t) { return neighbors_.hasOpened(peer); }),
                       own));
  neighbors_.listen({std::move(opened), 1}, membership_.log());
  return {};
}

std::vector<std::byte> RemoteGpus::reach(const std::vector<GpuOffer>& offers) {
  AddressTable table;
  for (const GpuOffer& offer : offers) table.push_back(offer.addresses);
  proxies_->setAddresses(std::move(table));
  // The last column is GPU memory.
  const size_t transports = proxies_->transports();
  return TransportReach::encode(rank(), membership_.ranks(), transports + 1, [&](int peer, size_t way) {
    return way < transports ? proxies_->canReach(peer, way) : neighbors_.reachesBothWays(peer);
  });
}

Status RemoteGpus::meet(Blobs told) {
  const size_t ranks = told.size();
  const TransportReach reach(std::move(told), proxies_->transports() + 1);
  neighbors_.settle(reach, proxies_->transports());
  membership_.log().info("gpu", "kernels write into the memory of the GPUs of %zu ranks of this node",
                         neighbors_.count());
  const std::vector<size_t> nodes = neighbors_.mailboxes().nodeOfRank();
  proxied_.assign(ranks, std::vector<bool>(ranks));
  for (size_t a = 0; a < ranks; ++a)
    for (size_t b = 0; b < a; ++b) {
      if (reach.choice(a, b) < 0)
        return makeStatus(Code::kSystemError, "ranks %zu and %zu share no transport for kernels' messages", b,
                          a);
      if (reach.both(a, b, proxies_->transports())) continue;
      all_of_nodes_neighbors_ &= nodes[a] != nodes[b];
      some_by_rdma_ |= proxies_->transportName(static_cast<size_t>(reach.choice(a, b))) == "verbs";
      proxied_[a][b] = proxied_[b][a] = true;
    }
  for (size_t rank = 0; rank < ranks; ++rank) most_proxied_ = std::max(most_proxied_, proxiedBy(rank));
  all_neighbors_ = most_proxied_ == 0;
  if (!all_neighbors_) parts_ = sizes_.bridged_parts;
  transport_of_rank_ = reach.choicesOf(static_cast<size_t>(rank()));
  return {};
}

GpuReady RemoteGpus::start(const Own& own, const Status& met) {
  GpuReady ready;
  ready.trouble = troubleOf(met.ok() ? startProxies(own) : met);
  ready.plan_bytes =
      std::min<uint64_t>(own.memory->bytes() - own.memory->used(),
                         static_cast<uint64_t>(membership_.options().config.gpu_plan_kb) << 10);
  return ready;
}

Status RemoteGpus::startProxies(const Own& own) {
  const size_t proxied = proxiedBy(static_cast<size_t>(rank()));
  if (proxied == 0) {
    proxies_->keepOne();
  } else {
    const int32_t parts = bridgedMessageParts();
    HORING_ASSIGN(queues_, BridgedQueues::make(device_, sizes_.bridged_shape,
                                               {.plans = sizes_.planBytes(proxied),
                                                .spare = spareQueues().areAny() ? sizes_.spareEndsBytes() : 0,
                                                .messages = sizes_.messageBytes(proxied, parts)}));
    const std::set<size_t> keepers = keepersOfMemory();
    if (!keepers.empty())
      queues_->useGpu(*device_, *own.memory, AdapterWays::of(membership_.options().config.ib_gpu_memory),
                      membership_.log());
    queues_->lendTo(*proxies_, keepers);
  }
  return proxies_->start(transport_of_rank_);
}

std::set<size_t> RemoteGpus::keepersOfMemory() const {
  std::set<size_t> keepers;
  for (int peer = 0; peer < membership_.ranks(); ++peer) {
    if (peer == rank() || neighbors_.reaches(peer)) continue;
    const auto transport = static_cast<size_t>(transport_of_rank_[static_cast<size_t>(peer)]);
    if (proxies_->mayKeepMemory(transport)) keepers.insert(transport);
  }
  return keepers;
}

SpareQueues RemoteGpus::spareQueues() const {
  if (!all_of_nodes_neighbors_) return {};
  return {neighbors_.mailboxes().nodeOfRank(), sizes_.shape, sizes_.spare_bytes, sizes_.spareEnds()};
}

int32_t RemoteGpus::bridgedMessageParts() const {
  if (most_proxied_ == 0 || membership_.ranks() - 1 > cuda::kMaxFlows / 2) return 0;
  return sizes_.messageParts(most_proxied_);
}

size_t RemoteGpus::proxiedBy(size_t rank) const {
  return static_cast<size_t>(std::ranges::count(proxied_[rank], true));
}

PlanRoom RemoteGpus::planRoom(size_t message_bytes, size_t message_blocks) const {
  const size_t of_messages = cuda::Memory::roomOf(message_blocks * sizeof(cuda::Activity));
  std::vector<PlanRoom::Rank> ranks;
  for (size_t rank = 0; rank < ready_.size(); ++rank) {
    const size_t bytes = ready_[rank].plan_bytes;
    ranks.push_back({{.gpu = bytes - std::min(bytes, message_bytes),
                      .told = GpuQueueSizes::kToldBytes - std::min(GpuQueueSizes::kToldBytes, of_messages),
                      .bridged = sizes_.planBytes(proxiedBy(rank))},
                     proxied_[rank]});
  }
  return {std::move(ranks),
          {.own_bytes = cuda::queueBytes(sizes_.shape), .bridged_bytes = sizes_.endBytes(), .parts = parts_}};
}

Result<cuda::Port> RemoteGpus::port(GpuProxy::Lane lane, QueueUse use) {
  if (neighbors_.reaches(lane.peer)) return neighbors_.port(lane.peer, lane.channel, lane.sends);
  const auto transport = static_cast<size_t>(transport_of_rank_[static_cast<size_t>(lane.peer)]);
  const bool by_adapters = proxies_->holds(transport, queues_->gpuSlots());
  HORING_ASSIGN(const BridgedQueues::Made made, queues_->queue(use, by_adapters));
  lane.end = lane.sends ? made.queue.receive : made.queue.send;
  lane.slots = made.slots;
  proxies_->add(lane);
  return lane.sends ? made.queue.send : made.queue.receive;
}

Result<cuda::Activity*> RemoteGpus::activity(size_t blocks) {
  HORING_ASSIGN(std::byte* const at, told_->allocate(blocks * sizeof(cuda::Activity)));
  auto* const activity = reinterpret_cast<cuda::Activity*>(at);
  proxies_->watch({activity, blocks});
  return activity;
}

Result<cuda::Activity*> RemoteGpus::activityOfMessages(size_t blocks) {
  HORING_ASSIGN(cuda::Activity* const activity, this->activity(blocks));
  proxies_->watchMessages(activity);
  return activity;
}

std::shared_ptr<void> RemoteGpus::leave(std::shared_ptr<void> memory) {
  proxies_.reset();
  return neighbors_.leave(std::move(memory));
}

void RemoteGpus::leak() {
  neighbors_.leak();
  proxies_.reset();
  (void)told_.release();
  if (queues_) queues_->leak();
}

uint64_t RemoteGpus::memoryBytes() const {
  if (!proxies_) return 0;
  return told_->bytes() + (queues_ ? queues_->memoryBytes() : 0) + proxies_->memoryBytes();
}

}  // namespace horing
