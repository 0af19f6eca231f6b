#include "transport/verbs/verbs_transport.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "transport/link_shape.h"
#include "transport/verbs/link.h"
#include "transport/verbs/published.h"

namespace horing {

namespace verbs {
namespace {

// Control links rarely have messages, so they are not polled every time.
constexpr int64_t kControlEvery = 64;
// After this many rounds without a completion the rank is idle, and returns single credits.
constexpr int64_t kIdleRounds = 64;
constexpr int64_t kLingerMs = 2000;
constexpr int64_t kNsPerMs = 1'000'000;
// See HORING_IB_TIMEOUT: with six retries half a second at least, and eight.
constexpr int kTimeoutOfSeveral = 14;
constexpr int kTimeoutOfOne = 18;
constexpr size_t kMuchLockedBytes = size_t{4} << 30;
// Numbers from here on are links of the control transport that replace links without a path.
constexpr int kSpareNumbers = kMaxLinksPerPeer / 2;

std::string describePort(const Port& port) {
  std::string text = formatString("%s: %s, %u Mbit/s, MTU %d, address %d", port.label().c_str(),
                                  kindName(port.gid.kind), port.mbps, 128 << port.mtu, port.gid.index);
  if (!port.infiniband)
    text += formatString(" of a subnet of %d bits, %s", port.subnet.bits,
                         port.subnet.routed ? "routed" : "not routed");
  return text + (port.near ? "" : ", not near to this rank");
}

class VerbsTransport final : public Transport, private RegionAccess {
 public:
  VerbsTransport(const VerbsOptions& options, std::unique_ptr<Transport> control)
      : options_(options), control_(std::move(control)) {}
  ~VerbsTransport() override;

  Status open();

  const char* name() const override { return "verbs"; }
  std::vector<std::byte> address() const override { return own_.encode(); }
  bool canReach(std::span<const std::byte> peer_address) const override {
    return whyUnreachable(peer_address).empty();
  }
  std::string whyUnreachable(std::span<const std::byte> peer_address) const override;
  Result<Link*> connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                        int number) override;
  Status progress() override;
  void beginWait() override;
  int waitFd() const override { return epoll_.get(); }
  void endWait() override;
  uint64_t memoryBytes() const override;
  RegionAccess* regions() override { return this; }

 private:
  bool usesLentMemory() const override { return options_.region_bytes > 0; }
  bool usesOrdinaryMemory() const override { return false; }
  bool usesGpuMemory() const override { return usesLentMemory(); }
  bool mayKeepMemory() override { return usesLentMemory() && locksFreely(); }
  bool holds(const std::byte* memory, size_t bytes) const override {
    return regions_->find(memory, bytes) != nullptr;
  }
  void lend(const Region& region) override { regions_->hold(region); }
  void takeBack(const Region& region) override { regions_->release(region); }
  void forget(uint64_t region) override { regions_->forget(region); }
  DataMoved dataMoved() const override { return moved_; }

  // The path of a completion ID.
  struct PathOwner {
    VerbsLink* link;
    size_t index;
  };

  Status probeLockedMemory();
  Status tryToLock(size_t bytes);
  bool locksFreely();
  Status watch(int fd);
  // The reason why no port of the peer can be paired with a port of this rank.
  std::string apartText(const Published& peer) const;
  void compareMtus(int peer, const std::vector<PathPlan>& paths);
  std::vector<PathPlan> planPaths(int peer, const Published& published) const;
  void progressControl();

  VerbsOptions options_;
  std::unique_ptr<Transport> control_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<RegionCache> regions_;  // registrations with the devices
  DataMoved moved_;
  Published own_;
  Fd epoll_;
  std::vector<std::unique_ptr<VerbsLink>> links_;
  std::vector<PathOwner> paths_;
  std::set<std::pair<int, int>> taken_;  // peer and number of every link
  int watched_control_fd_ = -1;          // valid from the first link on
  size_t need_control_ = 0;              // links that need control progress
  Status status_;
  bool waiting_ = false;
  bool said_mtu_ = false;
  std::optional<bool> locks_freely_;  // set at the first query
  int64_t rounds_ = 0;
  int64_t idle_rounds_ = 0;  // consecutive rounds without a completion
};

Status VerbsTransport::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (fd < 0 || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return systemError(errno, "watch a descriptor with epoll");
}

Status VerbsTransport::open() {
  // Before the library is loaded, which takes milliseconds.
  if (!options_.library && !hasRdmaDevices())
    return makeStatus(Code::kSystemError, "this machine has no RDMA device");
  HORING_ASSIGN(const Library library, options_.library ? Result<Library>(*options_.library) : loadLibrary());
  // On kernels before 5.12 a fork moves registered pages away from the parent, unless the library marks them.
  if (library.forkInit() != 0)
    options_.log.warn(
        "verbs",
        "registered memory is not kept from children: another library of this process used RDMA "
        "before; where Linux is older than 5.12, a fork may make RDMA send stale data, unless "
        "RDMAV_FORK_SAFE=1 is set");
  HORING_ASSIGN(OpenDevices open, openDevices(library,
                                              {options_.devices, options_.gid_index,
                                               options_.relaxed_ordering, options_.distance},
                                              kMaxPorts));
  if (!open.wrong_setting.ok())
    options_.log.warn("verbs", "%s; other ports serve", open.wrong_setting.message().c_str());
  if (!open.left_out.empty()) options_.log.info("verbs", "not used: %s", open.left_out.c_str());
  devices_ = std::move(open.devices);
  HORING_TRY(probeLockedMemory());
  regions_ = std::make_unique<RegionCache>(std::span(devices_), RegionLimits{.bytes = options_.region_bytes},
                                           options_.log);
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return systemError(errno, "open an epoll descriptor");
  for (const auto& device : devices_) {
    HORING_TRY(watch(device->completionFd()));
    HORING_TRY(watch(device->asyncFd()));
    own_.ports.push_back(PublishedPort::of(device->port()));
    options_.log.info("verbs", "%s", describePort(device->port()).c_str());
  }
  own_.queue_pairs = static_cast<uint8_t>(options_.queue_pairs);
  own_.control = control_->address();
  return {};
}

// Checked here, so that another transport can be used instead; a failure in a link would be an error.
Status VerbsTransport::probeLockedMemory() {
  rlimit limit{};
  if (options_.locked_bytes == 0 || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return {};
  return tryToLock(options_.locked_bytes);
}

Status VerbsTransport::tryToLock(size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return systemError(errno, "map %zu bytes", bytes);
  const Region probe{.begin = static_cast<std::byte*>(memory), .bytes = bytes};
  const Status locked = Registration::make(*devices_.front(), probe, IBV_ACCESS_LOCAL_WRITE).status();
  ::munmap(memory, bytes);
  return locked;
}

// Whether the limit is large, or does not apply to this process.
bool VerbsTransport::locksFreely() {
  if (locks_freely_) return *locks_freely_;
  rlimit limit{};
  const bool is_large = ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= kMuchLockedBytes;
  locks_freely_ = is_large || tryToLock(limit.rlim_cur + 1).ok();
  return *locks_freely_;
}

// Says goodbye once everything has arrived. The control transport is destroyed first, since it waits until the goodbye is delivered.
VerbsTransport::~VerbsTransport() {
  if (options_.clock && !links_.empty()) {
    waiting_ = true;  // returns all credits
    const Deadline linger = Deadline::after(*options_.clock, kLingerMs);
    for (bool all_left = false; !all_left && !linger.passed();) {
      [[maybe_unused]] const Status moved = progress();
      all_left = true;
      for (const auto& link : links_) all_left = link->leave() && all_left;
      if (!all_left) ::poll(nullptr, 0, 1);
    }
  }
  control_.reset();
}

std::vector<PathPlan> VerbsTransport::planPaths(int peer, const Published& published) const {
  const bool lower = options_.rank < peer;
  const std::vector<PortPair> pairs =
      lower ? pairPorts(own_.ports, published.ports) : pairPorts(published.ports, own_.ports);
  const auto far_ends = [&](const PortPair& pair) {
    return !own_.ports[lower ? pair.lower : pair.higher].near +
           !published.ports[lower ? pair.higher : pair.lower].near;
  };
  int nearest = 2;
  for (const PortPair& pair : pairs) nearest = std::min(nearest, far_ends(pair));
  std::vector<PathPlan> paths;
  for (int n = 1; n <= std::min(own_.queue_pairs, published.queue_pairs); ++n)
    for (const PortPair& pair : pairs) {
      if (paths.size() == kMaxPaths) break;
      const size_t mine = lower ? pair.lower : pair.higher;
      Device* const device = devices_[mine].get();
      const PublishedPort& theirs = published.ports[lower ? pair.higher : pair.lower];
      std::string name = device->port().label() + " -> " + theirs.name;
      if (n > 1) name += formatString(" (%d)", n);
      paths.push_back({device, mine, theirs, std::move(name), far_ends(pair) > nearest});
    }
  return paths;
}

std::string VerbsTransport::whyUnreachable(std::span<const std::byte> peer_address) const {
  const Result<Published> peer = Published::decode(peer_address);
  if (!peer.ok()) return peer.status().message();
  // The order of the two ranks changes the pairs, but not whether there is one.
  if (pairPorts(own_.ports, peer.value().ports).empty()) return apartText(peer.value());
  return control_->canReach(peer.value().control) ? ""
                                                  : "the sockets for RDMA control messages do not reach it";
}

std::string VerbsTransport::apartText(const Published& peer) const {
  const auto list = [](const std::vector<PublishedPort>& ports) {
    std::string text;
    for (const PublishedPort& port : ports) text += (text.empty() ? "" : ", ") + port.describe();
    return text;
  };
  return "it has " + list(peer.ports) + ", and this rank " + list(own_.ports) +
         ", which do not reach each other (of one kind, and one fabric or subnet, or subnets with routes "
         "between): see HORING_IB_HCA and HORING_IB_GID_INDEX";
}

Result<Link*> VerbsTransport::connect(int peer, std::span<const std::byte> peer_address,
                                      const LinkShape& shape, int number) {
  HORING_TRY(checkLinkShape(shape));
  HORING_TRY(checkLinkNumber(number));
  if (peer < 0 || peer == options_.rank)
    return makeStatus(Code::kInvalidArgument, "rank %d cannot have an RDMA link to rank %d", options_.rank,
                      peer);
  if (taken_.contains({peer, number}))
    return makeStatus(Code::kInvalidUsage, "rank %d has an RDMA link %d to rank %d already", options_.rank,
                      number, peer);
  HORING_ASSIGN(const Published published, Published::decode(peer_address));
  std::vector<PathPlan> paths = planPaths(peer, published);
  if (paths.empty())
    return makeStatus(Code::kInvalidUsage, "rank %d has no RDMA path to rank %d: %s", options_.rank, peer,
                      apartText(published).c_str());
  const bool several_ports = std::any_of(
      paths.begin(), paths.end(), [&](const PathPlan& path) { return path.device != paths.front().device; });
  LinkOptions link{.rank = options_.rank,
                   .peer = peer,
                   .number = number,
                   .shape = withoutRoom(shape),
                   .paths = {},
                   .new_path_id =
                       [this](VerbsLink& of, size_t index) {
                         paths_.push_back({&of, index});
                         return static_cast<uint32_t>(paths_.size() - 1);
                       },
                   .tuning = {.timeout = options_.timeout != 0 ? options_.timeout
                                         : several_ports       ? kTimeoutOfSeveral
                                                               : kTimeoutOfOne,
                              .retries = options_.retries,
                              .traffic_class = options_.traffic_class,
                              .service_level = options_.service_level,
                              .pkey_index = options_.pkey_index},
                   .outage_ns = options_.outage_ms * kNsPerMs,
                   .regions = regions_.get(),
                   .moved = &moved_,
                   .clock = options_.clock,
                   .log = options_.log};
  compareMtus(peer, paths);
  std::string chosen;
  for (const PathPlan& path : paths)
    chosen += (chosen.empty() ? "" : ", ") + path.name + (path.spare ? " (stands by)" : "");
  options_.log.info("verbs", "paths to rank %d: %s", peer, chosen.c_str());
  link.paths = std::move(paths);
  if (options_.without_paths == WithoutPaths::kUseControl && number < kSpareNumbers)
    link.instead = [this, peer, address = published.control, shape, number] {
      return control_->connect(peer, address, shape, kSpareNumbers + number);
    };
  HORING_ASSIGN(Link * control, control_->connect(peer, published.control, kControlShape, number));
  if (const int fd = control_->waitFd(); fd != watched_control_fd_) {
    HORING_TRY(watch(fd));
    watched_control_fd_ = fd;
  }
  auto made = std::make_unique<VerbsLink>(std::move(link), *control);
  HORING_TRY(made->open());
  taken_.insert({peer, number});
  ++need_control_;
  links_.push_back(std::move(made));
  return links_.back().get();
}

// Warns: this works, but is probably not intended.
void VerbsTransport::compareMtus(int peer, const std::vector<PathPlan>& paths) {
  for (const PathPlan& path : paths) {
    const int mine = 128 << path.device->port().mtu, theirs = 128 << path.theirs.mtu;
    if (mine == theirs || std::exchange(said_mtu_, true)) continue;
    options_.log.warn(
        "verbs",
        "packets to rank %d have %d bytes: %s takes %d and its %s takes %d; give both interfaces "
        "one MTU (said once)",
        peer, std::min(mine, theirs), path.device->port().label().c_str(), mine, path.theirs.name.c_str(),
        theirs);
  }
}

void VerbsTransport::progressControl() {
  [[maybe_unused]] const Status of_links = control_->progress();  // each link checks its own status
  for (const auto& device : devices_) {
    const std::string trouble = device->takeTrouble(options_.log);
    if (trouble.empty()) continue;
    for (const auto& link : links_) link->portFailed(*device, trouble);
  }
  need_control_ = 0;
  bool came_up = false;
  for (const auto& link : links_) {
    const bool was_up = link->established();
    link->progressControl();
    if (!was_up && link->established()) {
      came_up = true;
      options_.log.info("verbs", "linked to rank %d: %s", link->peer(), link->describe().c_str());
    }
    need_control_ += link->needsControl() && link->status().ok() ? 1 : 0;
  }
  // Sends it to the peer at once, since this rank may not poll again for long.
  if (came_up) [[maybe_unused]]
    const Status said = control_->progress();
}

Status VerbsTransport::progress() {
  int completions = 0;
  for (const auto& device : devices_)
    completions += device->poll([this](const ibv_wc& done) {
      const uint32_t id = Path::idOf(done);
      if (id < paths_.size()) paths_[id].link->completed(paths_[id].index, done);
    });
  idle_rounds_ = completions == 0 ? idle_rounds_ + 1 : 0;
  if (waiting_ || need_control_ > 0 || ++rounds_ % kControlEvery == 0) progressControl();
  const bool thorough = waiting_ || idle_rounds_ >= kIdleRounds;
  for (const auto& link : links_) {
    link->progress(thorough ? VerbsLink::Effort::kThorough : VerbsLink::Effort::kNormal);
    if (status_.ok() && !link->status().ok()) status_ = link->status();
  }
  return status_;
}

void VerbsTransport::beginWait() {
  waiting_ = true;
  for (const auto& device : devices_) {
    device->disarm();
    device->arm();
  }
  control_->beginWait();
}

void VerbsTransport::endWait() {
  waiting_ = false;
  control_->endWait();
}

uint64_t VerbsTransport::memoryBytes() const {
  uint64_t bytes = sizeof *this + control_->memoryBytes();
  for (const auto& link : links_) bytes += link->memoryBytes();
  return bytes;
}

}  // namespace
}  // namespace verbs

// A millisecond. With less, adapters that honour it lose paths by chance.
constexpr int kLeastTimeout = 8;

bool hasRdmaDevices() {
  std::error_code none;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
  return !none && devices != std::filesystem::directory_iterator();
}

Result<std::unique_ptr<Transport>> makeVerbsTransport(const VerbsOptions& options,
                                                      std::unique_ptr<Transport> control) {
  if (options.timeout != 0 && options.timeout < kLeastTimeout)
    return makeStatus(Code::kInvalidArgument, "HORING_IB_TIMEOUT=%d: expected 0, or %d to 22",
                      options.timeout, kLeastTimeout);
  if (!options.clock || !control)
    return makeStatus(Code::kInvalidArgument, "the verbs transport needs a clock and a control transport");
  auto transport = std::make_unique<verbs::VerbsTransport>(options, std::move(control));
  if (const Status opened = transport->open(); !opened.ok())
    return makeStatus(opened.code(), "rank %d cannot use RDMA: %s", options.rank, opened.message().c_str());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace horing
