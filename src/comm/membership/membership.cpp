#include "comm/membership/membership.h"

#include <algorithm>

#include "comm/membership/introduction.h"
#include "comm/membership/log_of.h"
#include "control/rank_list.h"
#include "cuda/device.h"
#include "topology/machine.h"

namespace horing {

namespace {

// With more ranks, the waiting of each rank for every other costs more than reading in place gains.
constexpr size_t kMostSharingRanks = 64;
constexpr const char* kMaking = "the making of the communicator";

// Warns that this rank has RDMA but reaches these peers by sockets, which users may not expect.
void logPeersWithoutRdma(const Connector& connector, int ranks, const Log& log) {
  if (!connector.has("verbs")) return;
  const size_t verbs = connector.indexOf("verbs");
  std::vector<int> without;
  for (int peer = 0; peer < ranks; ++peer)
    if (connector.choiceFor(peer) > static_cast<int>(verbs)) without.push_back(peer);
  if (without.empty()) return;
  const std::string why = connector.whyUnreachable(without.front(), verbs);
  log.warn("verbs", "rank(s) %s have no RDMA, or none that this rank's reaches%s%s: sockets serve instead",
           rankList(without).c_str(), why.empty() ? "" : "; of the first: ", why.c_str());
}

Result<HostIdentity> identityOf(const CommunicatorOptions& options) {
  HORING_ASSIGN(HostIdentity self, findHostIdentity(options.config, options.gpu_bus));
  if (!options.gpu) return self;
  const Result<CudaUuid> uuid = options.gpu->uuid();
  if (uuid.ok()) self.gpu = {uuid.value(), options.gpu->hasMps()};
  return self;
}

}  // namespace

Log logOf(const CommunicatorOptions& options) {
  const int gpu = options.gpu ? options.gpu->number() : -1;
  return options.config.log(options.config.debug_form == "nccl" ? gpu : options.rank);
}

Membership::Membership(CommunicatorOptions options, const Clock& clock)
    : options_(std::move(options)), log_(logOf(options_)), clock_(clock) {
  if (!options_.aborted) options_.aborted = std::make_shared<std::atomic<bool>>(false);
}

JoinOptions Membership::joinOptions(const UniqueId& id, int rank, int ranks) const {
  JoinOptions join;
  join.id = id;
  join.rank = rank;
  join.ranks = ranks;
  join.timeout_ms = config().init_timeout_ms;
  join.clock = &clock_;
  join.heartbeat_ms = config().heartbeat_ms;
  join.log = log_;
  return join;
}

Result<std::unique_ptr<Membership>> Membership::join(CommunicatorOptions options, const Clock& clock) {
  std::unique_ptr<Membership> made(new Membership(std::move(options), clock));
  HORING_ASSIGN(const UniqueIdParts id, decodeUniqueId(made->options_.id));
  made->id_ = id.job;
  JoinOptions join = made->joinOptions(made->options_.id, made->rank(), made->ranks());
  join.root_was_open = made->options_.root_was_open;
  join.abort = &made->aborted();
  join.failed_rank = made->options_.failed_rank;
  HORING_ASSIGN(made->control_, Control::join(join));
  Result<Fragment> place = findFragment(made->config(), made->rank(), made->options_.gpu_bus, made->log_);
  if (!place.ok()) {
    made->control_->announceError(place.status());
    return place.status();
  }
  made->place_ = place.take();
  return made;
}

Result<std::vector<std::unique_ptr<Transport>>> Membership::makeTransports(const std::string& purpose) const {
  return horing::makeTransports(
      {.config = config(),
       .id = options_.id,
       .rank = rank(),
       .hub = options_.hub,
       .clock = &clock_,
       // Until the rendezvous has closed.
       .deaths_are_told = [this] { return control_->status().ok() && !control_->isOver(0); },
       .log = log_,
       .nic_distance = nicDistances(place_),
       .verbs = options_.verbs,
       .purpose = purpose});
}

Status Membership::introduce(Connector& connector, uint64_t table_digest, Deadline deadline) {
  HORING_ASSIGN(HostIdentity self, identityOf(options_));
  const Introduction mine{.settings = settingsText(options_, table_digest),
                          .first = firstOf(options_),
                          .identity = std::move(self),
                          .fragment = place_,
                          .bootstrap_id = reserveBootstrapPort(),
                          .addresses = connector.addresses()};
  HORING_ASSIGN(const auto told, control_->allGather(encodeFields(mine), deadline, kMaking));
  HORING_ASSIGN(std::vector<Introduction> all, decodeIntroductions(told, rank()));
  Placement::Ranks ranks{.identities = {}, .fragments = {}, .first = all.front().first};
  AddressTable addresses;
  for (Introduction& one : all) {
    ranks.identities.push_back(std::move(one.identity));
    ranks.fragments.push_back(std::move(one.fragment));
    bootstrap_ids_.push_back(one.bootstrap_id);
    addresses.push_back(std::move(one.addresses));
  }
  connector.setAddresses(std::move(addresses));
  return agreeOnTransports(connector, std::move(ranks), deadline);
}

// Every rank tries its transports and tells the others which peers it reaches; a transport is used if it works both ways.
Status Membership::agreeOnTransports(Connector& connector, Placement::Ranks ranks, Deadline deadline) {
  const size_t transports = connector.transports().size(), shm = connector.indexOf("shm");
  const auto mine =
      TransportReach::encode(rank(), this->ranks(), transports,
                             [&](int peer, size_t transport) { return connector.canReach(peer, transport); });
  HORING_ASSIGN(auto told, control_->allGather(mine, deadline, kMaking));
  const TransportReach reach(std::move(told), transports);
  connector.setChoices(reach.choicesOf(static_cast<size_t>(rank())),
                       reach.nextOf(static_cast<size_t>(rank())));
  logPeersWithoutRdma(connector, this->ranks(), log_);
  shares_memory_ = allReach(reach, connector);
  const auto by_shm = [&](size_t a, size_t b) { return reach.both(a, b, shm); };
  HORING_ASSIGN(Placement placement, Placement::of(std::move(ranks), config().reproducible,
                                                   shm < transports ? by_shm : Placement::SharesMemory()));
  placement_.emplace(std::move(placement));
  return {};
}

// False if no memory is shared, or if there are too many ranks to share memory.
bool Membership::allReach(const TransportReach& reach, const Connector& connector) const {
  const auto ranks = static_cast<size_t>(options_.ranks);
  const size_t shm = connector.indexOf("shm");
  if (!options_.segments || ranks > kMostSharingRanks) return false;
  if (options_.hub) return true;
  if (shm == connector.transports().size()) return false;
  for (size_t a = 0; a < ranks; ++a)
    for (size_t b = 0; b < a; ++b)
      if (!reach.both(a, b, shm)) return false;
  return true;
}

// The options with which this rank would host a bootstrap.
Result<RootOptions> Membership::bootstrapOptions() const {
  RootOptions root;
  root.reach = options_.hub ? RootOptions::Reach::kThisMachine : RootOptions::Reach::kNetwork;
  root.family = config().socket_family;
  root.interfaces = config().socket_ifname;
  HORING_ASSIGN(root.ports, parsePortRange(config().ports));
  root.log = log_;
  return root;
}

// A communicator works without such a port.
std::optional<UniqueId> Membership::reserveBootstrapPort() {
  const Result<RootOptions> root = bootstrapOptions();
  Result<ReservedRoot> reserved = root.ok() ? reserveRoot(root.value()) : root.status();
  if (!reserved.ok()) {
    log_.info("init", "this communicator cannot shrink: %s", reserved.status().message().c_str());
    return std::nullopt;
  }
  reserved_ = reserved.take();
  return reserved_->id;
}

Result<Membership::Bootstrap> Membership::bootstrap(std::span<const int> members) const {
  const int host = members.front();
  const std::optional<UniqueId>& place = bootstrap_ids_[static_cast<size_t>(host)];
  if (!place)
    return makeStatus(Code::kInvalidUsage,
                      "rank %d, which is to host the rendezvous, found no port or address for that when the "
                      "communicator was made",
                      host);
  Bootstrap made;
  if (host == rank()) {
    HORING_ASSIGN(const RootOptions root, bootstrapOptions());
    HORING_ASSIGN(made.root, RootService::start(root, *reserved_));
  }
  const auto own = std::lower_bound(members.begin(), members.end(), rank()) - members.begin();
  JoinOptions join = joinOptions(*place, static_cast<int>(own), static_cast<int>(members.size()));
  // An aborted communicator may still be shrunk.
  if (!aborted().load(std::memory_order_relaxed)) join.abort = &aborted();
  HORING_ASSIGN(made.control, Control::join(join));
  return made;
}

Result<std::vector<std::vector<std::byte>>> Membership::exchangeFacts(std::span<const std::byte> mine,
                                                                      int64_t timeout_ms) const {
  return control_->allGather(mine, Deadline::after(clock_, timeout_ms));
}

}  // namespace horing
