// How a communicator comes to be: meet, tell each other who and where, agree on transports, lay the groups.
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/cache_folder.h"
#include "base/hex.h"
#include "base/output.h"
#include "comm/communicator.h"
#include "comm/links/link_shape.h"
#include "comm/links/transports.h"
#include "control/flight_file.h"
#include "control/rank_list.h"
#include "control/wire.h"
#include "cuda/device.h"
#include "selection/kept_table.h"
#include "selection/model_selection.h"
#include "topology/machine.h"

namespace horing {

namespace {

// Beyond, every rank would wait for every other more often than it gains by reading its memory.
constexpr size_t kMostSharingRanks = 64;
constexpr size_t kMaxSettingsBytes = 1024;
constexpr const char* kMaking = "the making of the communicator";

// The links for sends and receives, or for those with tags, as far as they are up.
class PairConnections final : public PeerConnections {
 public:
  PairConnections(Connector& connector, LinkUse use) : connector_(connector), use_(use) {}
  Sender* sender(int peer) override {
    Link& link = connector_.link(use_, peer);
    return link.established() ? &link.sender(0) : nullptr;
  }
  Receiver* receiver(int peer) override {
    Link& link = connector_.link(use_, peer);
    return link.established() ? &link.receiver(0) : nullptr;
  }

 private:
  Connector& connector_;
  LinkUse use_;
};

// Devices have no memory of a segment that is gone.
class FreedSegments final : public SegmentList::Watcher {
 public:
  FreedSegments(SegmentList& segments, Connector& connector, const ForkGuard& fork_guard)
      : segments_(segments), connector_(connector), fork_guard_(fork_guard) {
    segments_.watch(*this);
  }
  ~FreedSegments() override {
    if (!fork_guard_.isForkedChild()) segments_.unwatch(*this);
  }
  FreedSegments(const FreedSegments&) = delete;
  FreedSegments& operator=(const FreedSegments&) = delete;
  void freed(uint64_t id) override {
    if (!fork_guard_.isForkedChild()) connector_.forget(id);
  }

 private:
  SegmentList& segments_;
  Connector& connector_;
  const ForkGuard& fork_guard_;
};

std::string_view takeWord(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

// The settings of one rank that another has otherwise, for a message.
std::string settingsNotIn(std::string_view settings, std::string_view others) {
  std::set<std::string_view> known;
  while (!others.empty()) known.insert(takeWord(others));
  std::string text;
  while (!settings.empty())
    if (const std::string_view word = takeWord(settings); !known.contains(word))
      text += (text.empty() ? "" : " ") + std::string(word);
  return text;
}

// This rank has RDMA, and yet reaches these peers by sockets: worth a word, since that is slower than one may think.
void logPeersWithoutRdma(const Connector& connector, int ranks, const Log& log) {
  const auto& transports = connector.transports();
  size_t verbs = 0;
  while (verbs < transports.size() && std::string_view(transports[verbs]->name()) != "verbs") ++verbs;
  if (verbs == transports.size() || transports[verbs]->address().empty()) return;
  std::vector<int> without;
  for (int peer = 0; peer < ranks; ++peer)
    if (connector.choiceFor(peer) > static_cast<int>(verbs)) without.push_back(peer);
  if (without.empty()) return;
  const std::string why = connector.whyUnreachable(without.front(), verbs);
  log.warn("verbs", "rank(s) %s have no RDMA, or none that this rank's reaches%s%s: sockets serve instead",
           rankList(without).c_str(), why.empty() ? "" : "; of the first: ", why.c_str());
}

// Rank 0's: whether it is worth the question what it keeps for this job.
bool hasKeptTables(const Config& config) {
  return config.selection == kSelectionAuto && !selectsByModel(config) &&
         !KeptTables(cacheFolder(config.cache_dir)).paths().empty();
}

// Rank 0's: whether what is not kept yet is measured. What is forced asks for no choice.
bool measuresOnce(const CommunicatorOptions& options) {
  const Config& config = options.config;
  return config.selection == kSelectionAuto && config.calibrate == kCalibrateOnce &&
         (!options.is_child || options.machine) && config.algorithm == kSelectionAuto &&
         !config.reproducible &&
         (config.cache_dir.empty() || KeptTables(cacheFolder(config.cache_dir)).canKeep());
}

PeerBuffers::SingleCopy singleCopyOf(const Config& config) {
  using enum PeerBuffers::SingleCopy;
  return config.single_copy == "0" ? kNever : config.single_copy == "1" ? kAlways : kWhereFaster;
}

// Measured, read by rank 0 from its file, or not at all: the same for all.
const char* calibrationKind(const Config& config) {
  return readsMachine(config) ? "(a file)" : config.calibrate.c_str();
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options)
    : options_(std::move(options)),
      timeout_ms_(options_.config.timeout_ms),
      log_(options_.config.log(options_.rank)),
      aborted_(*(options_.aborted ? options_.aborted
                                  : options_.aborted = std::make_shared<std::atomic<bool>>(false))) {}

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) {
  Fd::closeInForkedChildren();
  std::unique_ptr<Communicator> made(new Communicator(std::move(options)));
  Status status = made->initialise();
  if (status.ok()) {
    made->control_->onQuestion([comm = made.get()] {
      comm->guard_->lookBetweenCalls([comm] { comm->progress_->driveForOthers(); });
    });
  }
  if (!status.ok()) {
    if (made->control_ && made->options_.failed_rank)
      *made->options_.failed_rank = made->control_->failedRank();
    // The others need not wait for the deadline to hear of it.
    if (made->control_ && made->control_->status().ok()) made->control_->announceError(status);
    return status;
  }
  return made;
}

Status Communicator::initialise() {
  const Deadline deadline = Deadline::after(clock_, options_.config.init_timeout_ms);
  HORING_TRY(checkForced(options_.config));
  HORING_ASSIGN(selection_table_, SelectionTable::fromSetting(options_.config.selection));
  JoinOptions join;
  join.id = options_.id;
  join.rank = options_.rank;
  join.ranks = options_.ranks;
  join.root_was_open = options_.root_was_open;
  join.timeout_ms = options_.config.init_timeout_ms;
  join.clock = &clock_;
  join.abort = &aborted_;
  join.heartbeat_ms = options_.config.heartbeat_ms;
  join.failed_rank = options_.failed_rank;
  join.log = log_;
  HORING_ASSIGN(control_, Control::join(join));
  HORING_ASSIGN(const UniqueIdParts id, decodeUniqueId(options_.id));
  id_ = id.job;
  buffer_users_ = BufferUsers::of(id_);
  if (!options_.config.trace.empty()) timeline_ = std::make_unique<Timeline>(clock_, options_.rank);
  guard_ = std::make_unique<Guard>(Guard::Parts{.rank = options_.rank,
                                                .control = *control_,
                                                .clock = clock_,
                                                .log = log_,
                                                .buffer_users = *buffer_users_,
                                                .aborted = aborted_,
                                                .timeline = timeline_.get()});
  control_->answerFrom(guard_->calls(), guard_->launches());
  if (!options_.config.flight_dir.empty()) keepRecords();
  HORING_ASSIGN(const Fragment place, findFragment(options_.config, options_.rank, options_.gpu_bus));
  HORING_ASSIGN(auto transports, makeTransports(transportRequest(place)));
  std::vector<LinkShape> shapes;
  for (const auto& transport : transports)
    shapes.push_back(linkShapeOf(options_.config, transport->name(), options_.ranks));
  connector_ = std::make_unique<Connector>(options_.rank, std::move(shapes), std::move(transports));
  lent_ = std::make_unique<LentBuffers>(*connector_, options_.segments, registrations_);
  watchSegments();
  HORING_ASSIGN(Job::Ranks ranks, exchangeIdentities(place, deadline));
  HORING_TRY(agreeOnTransports(std::move(ranks), deadline));
  selector_ = std::make_unique<Selector>(makeSelector());
  if (shares_memory_) {
    const auto memory = options_.hub ? PeerBuffers::Memory::kOfProcess : PeerBuffers::Memory::kOfSegments;
    std::vector<int64_t> processes;
    for (const HostIdentity& identity : job_->identities()) processes.push_back(identity.pid);
    peer_buffers_ = std::make_unique<PeerBuffers>(*options_.segments, job_->map(), options_.rank, memory,
                                                  std::move(processes), singleCopyOf(options_.config));
  }
  planner_ = std::make_unique<Planner>(options_.config, job_->map(), options_.rank, *connector_,
                                       job_->kernels().at(job_->identityOf(options_.rank).boot_id).cores);
  const uint32_t slot_bytes = linkShapeOf(options_.config, "", options_.ranks).slot_bytes;
  pairs_ = std::make_unique<PairConnections>(*connector_, LinkUse::kPointToPoint);
  point_to_point_ = std::make_unique<PointToPoint>(options_.rank, options_.ranks, slot_bytes, *pairs_);
  tagged_pairs_ = std::make_unique<PairConnections>(*connector_, LinkUse::kTagged);
  tagged_messages_ =
      std::make_unique<PointToPoint>(options_.rank, options_.ranks, slot_bytes, *tagged_pairs_);
  HORING_TRY(makeProgress());
  noteMemory();
  return {};
}

TransportRequest Communicator::transportRequest(const Fragment& place) const {
  // Until the rendezvous has closed.
  const auto deaths_are_told = [this] { return control_->status().ok() && control_->fd() >= 0; };
  return {options_.config, options_.id, options_.rank,       options_.hub,  &clock_,
          deaths_are_told, log_,        nicDistances(place), options_.verbs};
}

Result<std::vector<std::unique_ptr<Transport>>> Communicator::makeOtherTransports(
    const std::string& purpose) const {
  TransportRequest request = transportRequest(job_->fragmentOf(options_.rank));
  request.purpose = purpose;
  return makeTransports(request);
}

void Communicator::watchSegments() {
  if (!options_.segments || !connector_->usesLentMemory(connector_->chosenTransports())) return;
  freed_segments_ = std::make_unique<FreedSegments>(*options_.segments, *connector_, fork_guard_);
}

// A short one, for files.
std::string Communicator::jobName() const {
  return hexText(std::span(id_).first(4));
}

// A record of the last calls when something fails.
void Communicator::keepRecords() {
  control_->onFailure([this](const Status& error) {
    const Result<std::string> path =
        writeFlightFile({options_.config.flight_dir, jobName(), options_.rank, options_.ranks},
                        guard_->calls(), guard_->launches(), clock_, error);
    if (path.ok()) {
      log_.warn("flight",
                "the last operations of rank %d are in %s; horing-info trace reads those of all ranks",
                options_.rank, path.value().c_str());
    } else {
      log_.warn("flight", "HORING_FLIGHT_DIR: %s", path.status().message().c_str());
    }
  });
}

void Communicator::writeTimeline() const {
  const std::string path = formatString("%s/horing-%s-rank%d-%d.trace.json", options_.config.trace.c_str(),
                                        jobName().c_str(), options_.rank, static_cast<int>(::getpid()));
  const Status written = writeWholeFile(path, timeline_->toJson());
  if (written.ok()) {
    log_.info("trace", "the timeline of rank %d is in %s", options_.rank, path.c_str());
  } else {
    log_.warn("trace", "HORING_TRACE: %s", written.message().c_str());
  }
}

// What must be equal on all ranks, as one line of text.
std::string Communicator::settingsText() const {
  const Config& c = options_.config;
  return formatString(
      "HORING_WINDOW=%lld HORING_SLOTS=%lld HORING_SOCKET_SLOTS=%lld HORING_SLICE_BYTES=%lld "
      "HORING_ALGO=%s HORING_REPRODUCIBLE=%d HORING_TRANSPORTS=%s HORING_GPU_PATH=%s "
      "HORING_GPU_COPY_BYTES=%lld HORING_GPU_PROXIES=%lld HORING_SINGLE_COPY=%s HORING_SELECTION=%s(%016llx) "
      "HORING_CALIBRATE=%s",
      static_cast<long long>(c.window), static_cast<long long>(c.slots),
      static_cast<long long>(c.socket_slots), static_cast<long long>(c.slice_bytes), c.algorithm.c_str(),
      c.reproducible, c.transports.c_str(), c.gpu_path.c_str(), static_cast<long long>(c.gpu_copy_bytes),
      static_cast<long long>(c.gpu_proxies), c.single_copy.c_str(),
      c.selection == kSelectionAuto || c.selection == kSelectionByModel ? c.selection.c_str() : "",
      static_cast<unsigned long long>(selection_table_.digest()), calibrationKind(c));
}

Result<RootOptions> Communicator::meetingOptions() const {
  RootOptions root;
  root.reach = options_.hub ? RootOptions::Reach::kThisMachine : RootOptions::Reach::kNetwork;
  root.family = options_.config.socket_family;
  root.interfaces = options_.config.socket_ifname;
  HORING_ASSIGN(root.ports, parsePortRange(options_.config.ports));
  root.log = log_;
  return root;
}

// The ID, or nothing: a communicator works without it.
std::vector<std::byte> Communicator::reserveMeetingPlace() {
  const Result<RootOptions> root = meetingOptions();
  Result<ReservedRoot> reserved = root.ok() ? reserveRoot(root.value()) : root.status();
  if (!reserved.ok()) {
    log_.info("init", "this communicator cannot shrink: %s", reserved.status().message().c_str());
    return {};
  }
  reserved_ = reserved.take();
  return {reserved_->id.bytes.begin(), reserved_->id.bytes.end()};
}

Result<Job::Ranks> Communicator::exchangeIdentities(const Fragment& place, Deadline deadline) {
  HORING_ASSIGN(HostIdentity self, findHostIdentity(options_.config, options_.gpu_bus));
  if (options_.gpu) {
    const Result<CudaUuid> uuid = options_.gpu->uuid();
    if (uuid.ok()) self.gpu = {uuid.value(), options_.gpu->hasMps()};
  }
  WireWriter writer;
  writer.text(settingsText(), kMaxSettingsBytes);
  writer.number(static_cast<uint8_t>(options_.rank == 0 && hasKeptTables(options_.config)));
  writer.number(static_cast<uint8_t>(options_.rank == 0 && measuresOnce(options_)));
  writer.blob(encodeHostIdentity(self));
  writer.blob(encodeFragment(place));
  writer.blob(reserveMeetingPlace());
  const auto addresses = connector_->addresses();
  writer.number(static_cast<uint32_t>(addresses.size()));
  for (const auto& address : addresses) writer.blob(address);
  HORING_ASSIGN(const auto blobs, control_->allGather(writer.take(), deadline, kMaking));
  return decodePeers(blobs);
}

Result<Job::Ranks> Communicator::decodePeers(const std::vector<std::vector<std::byte>>& blobs) {
  const std::string settings = settingsText();
  Job::Ranks ranks;
  AddressTable table;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    WireReader reader(blobs[rank]);
    const std::string theirs = reader.text(kMaxSettingsBytes);
    const bool keeps_tables = reader.number<uint8_t>() != 0, measures = reader.number<uint8_t>() != 0;
    if (rank == 0) ranks.first = {keeps_tables, measures};
    const auto identity_bytes = reader.blob(kMaxHostIdentityBytes);
    const auto fragment_bytes = reader.blob(kMaxFragmentBytes);
    const auto place = reader.blob(kUniqueIdBytes);
    const auto count = reader.number<uint32_t>();
    std::vector<std::vector<std::byte>> addresses;
    for (uint32_t t = 0; t < count && !reader.failed(); ++t) {
      const auto address = reader.blob(kMaxAddressBytes);
      addresses.emplace_back(address.begin(), address.end());
    }
    if (!reader.complete())
      return makeStatus(Code::kRemoteError, "rank %d cannot read what rank %zu says about itself",
                        options_.rank, rank);
    if (theirs != settings)
      return makeStatus(Code::kInvalidUsage,
                        "ranks run with different settings: rank %d has %s, rank %zu has %s", options_.rank,
                        settingsNotIn(settings, theirs).c_str(), rank,
                        settingsNotIn(theirs, settings).c_str());
    HORING_ASSIGN(HostIdentity identity, decodeHostIdentity(identity_bytes));
    ranks.identities.push_back(std::move(identity));
    HORING_ASSIGN(Fragment fragment, decodeFragment(fragment_bytes));
    ranks.fragments.push_back(std::move(fragment));
    std::optional<UniqueId>& known = meeting_places_.emplace_back();
    if (place.size() == kUniqueIdBytes) std::copy(place.begin(), place.end(), known.emplace().bytes.begin());
    table.push_back(std::move(addresses));
  }
  connector_->setAddresses(std::move(table));
  return ranks;
}

// Every rank says whom it reaches by which transport, having tried; a transport is used where both ends said
// yes.
Status Communicator::agreeOnTransports(Job::Ranks ranks, Deadline deadline) {
  const size_t transports = connector_->transports().size();
  const auto mine = TransportReach::encode(
      options_.rank, options_.ranks, transports,
      [this](int peer, size_t transport) { return connector_->canReach(peer, transport); });
  HORING_ASSIGN(auto told, control_->allGather(mine, deadline, kMaking));
  const TransportReach reach(std::move(told), transports);
  connector_->setChoices(reach.choicesOf(static_cast<size_t>(options_.rank)));
  logPeersWithoutRdma(*connector_, options_.ranks, log_);

  shares_memory_ = sharesMemory(reach);
  const size_t shm = shmTransport();
  const auto sharesShm = [&](size_t a, size_t b) { return reach.both(a, b, shm); };
  HORING_ASSIGN(Job job, Job::lay(std::move(ranks), options_.config.reproducible,
                                  shm < transports ? sharesShm : Job::SharesMemory()));
  job_.emplace(std::move(job));
  return {};
}

size_t Communicator::shmTransport() const {
  const auto& transports = connector_->transports();
  size_t shm = 0;
  while (shm < transports.size() && std::string_view(transports[shm]->name()) != "shm") ++shm;
  return shm;
}

// Where nobody allocates such memory, or there are more ranks than would ask for it, that is no.
bool Communicator::sharesMemory(const TransportReach& reach) const {
  const auto ranks = static_cast<size_t>(options_.ranks);
  const size_t shm = shmTransport();
  if (!options_.segments || ranks > kMostSharingRanks) return false;
  if (options_.hub) return true;
  if (shm == connector_->transports().size()) return false;
  for (size_t a = 0; a < ranks; ++a)
    for (size_t b = 0; b < a; ++b)
      if (!reach.both(a, b, shm)) return false;
  return true;
}

// Where each rank is a process, one's output cannot be taken from another that writes into it as a thread.
Selector Communicator::makeSelector() const {
  return Selector({options_.config, job_->map(), selection_table_, shares_memory_, job_->areAllProcesses(),
                   job_->shape().ranks_per_core});
}

Status Communicator::makeProgress() {
  WaitPolicy policy;
  if (!job_->kernels()[job_->identityOf(options_.rank).boot_id].shares_cores)
    policy.spin_ns = options_.config.spin_us * 1000;
  policy.yield_ns = options_.config.yield_us * 1000;
  const TaggedExchange::Parts tagged{.messages = *tagged_messages_,
                                     .connector = *connector_,
                                     .lent = *lent_,
                                     .clock = clock_,
                                     .rank = options_.rank,
                                     .ranks = options_.ranks,
                                     .timeout_ms = timeout_ms_};
  const Progress::Parts parts{.guard = *guard_,
                              .control = *control_,
                              .connector = *connector_,
                              .clock = clock_,
                              .timeline = timeline_.get(),
                              .timeout_ms = timeout_ms_};
  HORING_ASSIGN(progress_, Progress::create(parts, tagged, policy));
  return {};
}

namespace {

// As lines of NCCL's log have it.
const char* ncclWordFor(std::string_view transport) {
  if (transport == "verbs") return "NET/IB/0";
  if (transport == "socket") return "NET/Socket/0";
  return transport == "shm" ? "SHM/direct/direct" : "P2P/direct pointer";
}

// What tools look for in NCCL's log: the network, and the way to the next rank of the ring.
void logAsNccl(const Log& log, int rank, const GroupMap& map, const Connector& connector) {
  const auto& transports = connector.transports();
  const bool has_rdma = std::any_of(transports.begin(), transports.end(), [](const auto& transport) {
    return std::string_view(transport->name()) == "verbs";
  });
  log.info("init", "Using network %s", has_rdma ? "IB" : "Socket");
  if (map.ranks() == 1) return;
  const int next = map.rankOfPosition((map.positionOfRank(rank) + 1) % map.ranks());
  log.info("init", "Channel 00/0 : %d[%d] -> %d[%d] via %s", rank, map.localIndexOf(rank), next,
           map.localIndexOf(next),
           ncclWordFor(transports[static_cast<size_t>(connector.choiceFor(next))]->name()));
}

}  // namespace

void Communicator::logWhoIsWhere() const {
  log_.info("init", "rank %d of %d on %s", options_.rank, options_.ranks,
            job_->identityOf(options_.rank).describe().c_str());
  if (options_.config.debug_form == "nccl") logAsNccl(log_, options_.rank, job_->map(), *connector_);
  if (options_.rank != 0) return;
  log_.info("init", "%s", describe().c_str());
  if (!selector_->fallback().empty()) log_.warn("init", "%s", selector_->fallback().c_str());
  for (const std::string& warning : job_->warnings()) log_.warn("init", "%s", warning.c_str());
}

const char* Communicator::transportTo(int rank) const {
  const int choice = connector_->choiceFor(rank);
  return choice < 0 ? "" : connector_->transports()[static_cast<size_t>(choice)]->name();
}

std::string Communicator::describe() const {
  const GroupMap& map = job_->map();
  const std::string name = options_.name.empty() ? "" : options_.name + ": ";
  std::string text = formatString("%s%d ranks in %s\n", name.c_str(), options_.ranks, map.describe().c_str());
  text += "ring: ";
  for (int position = 0; position < map.ranks() && position < 64; ++position)
    text += formatString("%s%d", position ? " > " : "", map.rankOfPosition(position));
  text += map.ranks() > 64 ? " > ...\n" : " > back\n";
  if (map.groups() > 1 && map.uniform())
    text += formatString("rails: %d, each a ring through %d groups\n", map.largestGroup(), map.groups());
  for (int rank = 0; rank < options_.ranks && rank < 64; ++rank) {
    const std::string by = rank == options_.rank ? "" : transportTo(rank);
    const std::string home = job_->homeOf(rank), &rail = job_->railOf(rank);
    text +=
        formatString("rank %d: %s, group %d%s%s%s%s%s%s\n", rank, job_->identityOf(rank).describe().c_str(),
                     map.groupOf(rank), home.empty() ? "" : ", on ", home.c_str(),
                     rail.empty() ? "" : ", near ", rail.c_str(), by.empty() ? "" : ", by ", by.c_str());
  }
  if (!selector_->fallback().empty()) text += selector_->fallback() + '\n';
  if (!table_from_.empty()) text += "algorithms by " + table_from_ + '\n';
  for (const size_t bytes : {size_t{1} << 10, size_t{1} << 20, size_t{64} << 20}) {
    text += formatString("at %zu KiB:", bytes >> 10);
    for (int number = 0; number < kCollectives; ++number) {
      const auto c = static_cast<Collective>(number);
      text += formatString(" %s %s", collectiveName(c), selector_->select(c, bytes).algorithm->name);
    }
    text += '\n';
  }
  return text;
}

}  // namespace horing
