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

// What each rank tells the others of a plan.
struct PlanMessage {
  std::array<int32_t, 3> key{-1, -1, -1};  // collective, algorithm, root
  bool is_made = false;
};
void fields(auto& wire, Is<PlanMessage> auto& message) {
  auto& [key, is_made] = message;
  wire.numbers(key[0], key[1], key[2], is_made);
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

// The call that a rank is in, as text.
std::string keyText(const std::array<int32_t, 3>& key) {
  const auto [collective, algorithm, root] = key;
  const auto isBelow = [](int32_t number, size_t end) {
    return number >= 0 && static_cast<size_t>(number) < end;
  };
  if (!isBelow(collective, kCollectives) || !isBelow(algorithm, algorithmCatalogue().size()))
    return "something unknown";
  const auto what = static_cast<Collective>(collective);
  const std::string text =
      formatString("%s %s", std::string(algorithmCatalogue()[static_cast<size_t>(algorithm)].name).c_str(),
                   collectiveName(what));
  return hasRoot(what) ? text + formatString(" with root %d", root) : text;
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
    const std::string why = mine.status().message();
    mine = GpuOffer();
    mine.value().trouble = why.empty() ? "unknown" : why;
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
    verdict.why_not = meet(std::move(told), own);
    // A rank that must free memory waits until peers have closed it. And messages are not calls of all ranks, so a rank that cannot start
    // its proxies could not report it there.
    if (is_shared || !all_neighbors_) {
      HORING_ASSIGN(const Blobs started, gather({{std::byte{started_.ok()}}}, own));
      const std::vector<std::byte> yes = {std::byte{1}};
      all_started_ =
          std::all_of(started.begin(), started.end(), [&](const auto& said) { return said == yes; });
    }
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

Status RemoteGpus::meet(Blobs told, const Own& own) {
  const size_t ranks = told.size();
  const TransportReach reach(std::move(told), proxies_->transports() + 1);
  neighbors_.settle(reach, proxies_->transports());
  membership_.log().info("gpu", "kernels write into the memory of the GPUs of %zu ranks of this node",
                         neighbors_.count());
  const std::vector<size_t> nodes = neighbors_.mailboxes().nodeOfRank();
  std::vector<size_t> proxied(ranks);
  for (size_t a = 0; a < ranks; ++a)
    for (size_t b = 0; b < a; ++b) {
      if (reach.choice(a, b) < 0)
        return makeStatus(Code::kSystemError, "ranks %zu and %zu share no transport for kernels' messages", b,
                          a);
      if (reach.both(a, b, proxies_->transports())) continue;
      all_of_nodes_neighbors_ &= nodes[a] != nodes[b];
      some_by_rdma_ |= proxies_->transportName(static_cast<size_t>(reach.choice(a, b))) == "verbs";
      ++proxied[a];
      ++proxied[b];
    }
  most_proxied_ = *std::max_element(proxied.begin(), proxied.end());
  all_neighbors_ = most_proxied_ == 0;
  if (!all_neighbors_) parts_ = sizes_.bridged_parts;
  // A local error, which all ranks learn when a plan is made.
  started_ = start(reach, own);
  return {};
}

Status RemoteGpus::start(const TransportReach& reach, const Own& own) {
  transport_of_rank_ = reach.choicesOf(static_cast<size_t>(rank()));
  const size_t proxied = static_cast<size_t>(membership_.ranks()) - 1 - neighbors_.count();
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
  if (most_proxied_ == 0 || !all_started_ || membership_.ranks() - 1 > cuda::kMaxFlows / 2) return 0;
  return sizes_.messageParts(most_proxied_);
}

void RemoteGpus::connect(bool carries) {
  if (carries)
    for (const GpuProxy::Lane& lane : lanes_) proxies_->add(lane);
  lanes_.clear();
  if (queues_) queues_->keep();
}

Result<bool> RemoteGpus::allMade(const std::array<int, 3>& key, bool made) {
  const PlanMessage mine{key, made && started_.ok()};
  HORING_ASSIGN(const Blobs blobs, membership_.exchangeFacts(encodeFields(mine), communicator_.timeoutMs()));
  bool all = true;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    PlanMessage theirs;
    if (!decodeFields(blobs[rank], theirs)) theirs = {};
    if (theirs.key != key)
      return makeStatus(
          Code::kInvalidUsage,
          "rank %d is at %s, and rank %zu at %s: every rank must call the same collectives in the same "
          "order with the same arguments, and run with the same HORING_ settings",
          this->rank(), keyText(key).c_str(), rank, keyText(theirs.key).c_str());
    all = all && theirs.is_made;
  }
  HORING_TRY(keepMade(all));
  return all;
}

Status RemoteGpus::keepMade(bool all) {
  if (all) {
    for (const auto& blocks : activities_) proxies_->watch(blocks);
  } else {
    HORING_TRY(told_->rewind(kept_told_bytes_));
    if (queues_) HORING_TRY(queues_->giveBack());
  }
  connect(all);
  kept_told_bytes_ = told_->used();
  activities_.clear();
  return {};
}

Result<cuda::Port> RemoteGpus::port(GpuProxy::Lane lane, QueueUse use) {
  if (neighbors_.reaches(lane.peer)) return neighbors_.port(lane.peer, lane.channel, lane.sends);
  HORING_TRY(started_);
  const auto transport = static_cast<size_t>(transport_of_rank_[static_cast<size_t>(lane.peer)]);
  const bool by_adapters = proxies_->holds(transport, queues_->gpuSlots());
  HORING_ASSIGN(const BridgedQueues::Made made, queues_->queue(use, by_adapters));
  lane.end = lane.sends ? made.queue.receive : made.queue.send;
  lane.slots = made.slots;
  lanes_.push_back(lane);
  return lane.sends ? made.queue.send : made.queue.receive;
}

Result<cuda::Activity*> RemoteGpus::takeActivity(size_t blocks) {
  HORING_ASSIGN(std::byte* const at, told_->allocate(blocks * sizeof(cuda::Activity)));
  return reinterpret_cast<cuda::Activity*>(at);
}

Result<cuda::Activity*> RemoteGpus::activity(size_t blocks) {
  HORING_ASSIGN(cuda::Activity* const activity, takeActivity(blocks));
  activities_.emplace_back(activity, blocks);
  return activity;
}

Result<cuda::Activity*> RemoteGpus::activityOfMessages(size_t blocks) {
  HORING_ASSIGN(cuda::Activity* const activity, takeActivity(blocks));
  kept_told_bytes_ = told_->used();
  proxies_->watch({activity, blocks});
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
