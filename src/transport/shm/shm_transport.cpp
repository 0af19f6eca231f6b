#include "transport/shm/shm_transport.h"

#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "base/hex.h"
#include "base/mapping.h"
#include "base/per_process.h"
#include "transport/link_shape.h"
#include "transport/shm/bell.h"
#include "transport/shm/link.h"

namespace horing {
namespace {

constexpr uint32_t kPollsPerLook = 1024;  // polls of progress() between readings of the clock

// Limits scans: a process with hundreds of groups would scan the files of all of them for each.
constexpr int64_t kOrphanLookNs = 1'000'000'000;
struct OrphanLooks {
  std::mutex mutex;
  std::map<std::string, int64_t> ns;  // by directory
};

bool looksForOrphans(const std::string& directory, const Clock& clock) {
  auto& looks = perProcess<OrphanLooks>();
  const std::lock_guard lock(looks.mutex);
  const int64_t now_ns = clock.nowNs();
  const auto [last, is_first] = looks.ns.try_emplace(directory, now_ns);
  if (!is_first && now_ns >= last->second && now_ns - last->second < kOrphanLookNs) return false;
  last->second = now_ns;
  return true;
}

// The nonce makes the stem unguessable and unique among all jobs.
std::string makeStem(const ShmOptions& options, const ShmNonce& nonce) {
  std::string stem = "horing-";
  for (const char c : options.job.substr(0, kMaxShmJobBytes)) {
    stem += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return stem + "-" + hexText(std::as_bytes(std::span(nonce))) + "-" + std::to_string(options.rank);
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(const ShmOptions& options, ShmSelf self, ShmFile presence, ShmBellShare share)
      : self_(std::move(self)),
        share_(std::move(share)),
        presence_(std::move(presence)),
        clock_(options.clock),
        log_(options.log),
        creator_(::getpid()) {
    self_.given_up = &page().given_up;
  }
  ~ShmTransport() override;

  const char* name() const override { return "shm"; }
  std::vector<std::byte> address() const override { return encodeShmAddress(self_.address); }
  bool canReach(std::span<const std::byte> peer_address) const override;
  std::string whyUnreachable(std::span<const std::byte>) const override { return {}; }
  Result<Link*> connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                        int number) override;
  Status progress() override;
  void beginWait() override;
  int waitFd() const override { return bell_fd_; }
  void endWait() override {
    if (bell_fd_ >= 0) share_.bell().endWait(&page().bell);
  }
  uint64_t memoryBytes() const override;
  RegionAccess* regions() override { return nullptr; }

 private:
  PresencePage& page() const { return *reinterpret_cast<PresencePage*>(presence_.map.data()); }
  // Checks whether peers are alive, if it is due.
  void watchPeers();
  // Whether new links would fail because this process has lost rights.
  bool hasLostRights() const;
  void sayGivenUp(int peer);

  ShmSelf self_;
  ShmBellShare share_;
  int bell_fd_ = -1;  // from the first link on; before that, no peer can ring
  // Outlives the links: with it gone, other files of this rank look like orphans.
  ShmFile presence_;
  const Clock* clock_;
  Log log_;
  int creator_;
  std::vector<std::unique_ptr<ShmLink>> links_;
  std::vector<ShmLink*> pending_;  // links of links_ in the handshake
  bool told_of_full_directory_ = false;
  bool told_of_rights_ = false;
  uint32_t polls_ = 0;
  int64_t watched_ns_ = 0;
};

ShmTransport::~ShmTransport() {
  // In a forked child: the parent still uses everything.
  if (creator_ != ::getpid()) return;
  // release: pairs with the acquire in SlotLinkState::peerDeparted(), ShmLink::settle() and ShmPeer::died().
  page().departed.store(1, std::memory_order_release);
  for (const auto& link : links_) link->ring();
  endWait();
}

bool ShmTransport::canReach(std::span<const std::byte> peer_address) const {
  const auto address = decodeShmAddress(peer_address);
  if (!address) return false;
  const bool has_room = self_.address.has_room && address->has_room;
  if (!has_room && address->pid_namespace != self_.address.pid_namespace) {
    log_.info("shm",
              "%s has less room than %llu MiB, and rank %d, in another PID namespace, could not reach memory "
              "outside it",
              self_.directory.c_str(), static_cast<unsigned long long>(kRoomBytes >> 20), address->rank);
    return false;
  }
  const Result<ShmPeer> peer = ShmPeer::open(self_.directory, self_.address, *address);
  if (!peer.ok()) log_.trace("shm", "%s", peer.status().message().c_str());
  return peer.ok();
}

Result<Link*> ShmTransport::connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                                    int number) {
  HORING_TRY(checkLinkShape(shape));
  HORING_TRY(checkLinkNumber(number));
  const auto address = decodeShmAddress(peer_address);
  if (peer == self_.rank() || !address || address->rank != peer) {
    return makeStatus(Code::kInvalidArgument,
                      "rank %d, shm: this is not the address of a rank %d of this node", self_.rank(), peer);
  }
  for (const auto& link : links_) {
    if (link->link().peer() == peer && link->link().number() == number) {
      return makeStatus(Code::kInvalidUsage, "rank %d has a shm link %d to rank %d already", self_.rank(),
                        number, peer);
    }
  }
  if (hasLostRights() || self_.given_up->has(peer)) {
    self_.given_up->set(peer);
    sayGivenUp(peer);
    return static_cast<Link*>(nullptr);
  }
  if (bell_fd_ < 0) {
    HORING_ASSIGN(bell_fd_, share_.bell().open());
  }
  self_.linked_ranks = std::max(self_.linked_ranks, links_.size() + 2);
  HORING_ASSIGN(std::unique_ptr<ShmLink> link, ShmLink::begin(&self_, *address, shape, number));
  if (link->isElsewhere() && !std::exchange(told_of_full_directory_, true))
    log_.info(
        "shm",
        "%s is full: slots of rank %d lie in memory of its process from now on, beginning with those for "
        "rank %d",
        self_.directory.c_str(), self_.rank(), peer);
  links_.push_back(std::move(link));
  pending_.push_back(links_.back().get());
  pending_.back()->ring();
  return &links_.back()->link();
}

// Memory that the directory has no room for is below /proc.
bool ShmTransport::hasLostRights() const {
  const Rights now;
  const auto has_room = [&] { return freeBytes(self_.directory).value_or(kRoomBytes) >= kRoomBytes; };
  return now.user != self_.rights.user || (now != self_.rights && !has_room());
}

void ShmTransport::sayGivenUp(int peer) {
  if (std::exchange(told_of_rights_, true)) return;
  if (self_.hasOtherRights()) {
    log_.warn(
        "shm",
        "rank %d: this process has changed its rights (its user was %u and is %u%s) since the "
        "communicator was made. Links that come up from now on, beginning with rank %d, cannot use shared "
        "memory",
        self_.rank(), self_.rights.user, Rights().user, Rights().is_dumpable ? "" : ", not dumpable", peer);
  } else {
    log_.info("shm", "rank %d: rank %d has changed its rights: new links to it cannot use shared memory",
              self_.rank(), peer);
  }
}

Status ShmTransport::progress() {
  if (!pending_.empty())
    std::erase_if(pending_, [&](ShmLink* link) {
      const bool is_over = link->settle();
      if (link->link().givenUp()) sayGivenUp(link->link().peer());
      return is_over;
    });
  if (++polls_ % kPollsPerLook == 0) watchPeers();
  return self_.first_error;
}

void ShmTransport::beginWait() {
  watchPeers();
  if (bell_fd_ >= 0) share_.bell().beginWait(&page().bell);
}

void ShmTransport::watchPeers() {
  const int64_t now_ns = clock_->nowNs();
  if (now_ns - watched_ns_ < kShmLivenessMs * 1'000'000) return;
  watched_ns_ = now_ns;
  bool lost = false;
  for (const auto& link : links_) lost = link->failIfPeerDied() || lost;
  if (lost) removeOrphans(self_.directory);
}

uint64_t ShmTransport::memoryBytes() const {
  uint64_t bytes = presence_.map.bytes();
  for (const auto& link : links_) bytes += link->memoryBytes();
  return bytes;
}

}  // namespace

int removeShmLeftovers(const std::string& directory) {
  return removeOrphans(directory);
}

Result<std::unique_ptr<Transport>> makeShmTransport(const ShmOptions& options) {
  if (options.clock == nullptr || options.rank < 0 || options.directory.empty() ||
      options.directory[0] != '/') {
    return makeStatus(Code::kInvalidArgument,
                      "shm of rank %d in \"%s\": the directory must be absolute (HORING_SHM_DIR), the rank 0 "
                      "or more and the "
                      "clock given",
                      options.rank, options.directory.c_str());
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kRoomBytes)
    return systemError(EFBIG, "rank %d, shm: files may have %llu bytes", options.rank,
                       static_cast<unsigned long long>(limit.rlim_cur));
  ShmSelf self{.directory = options.directory};
  self.ample_bytes = options.ample_bytes;
  HORING_ASSIGN(self.address, describePlace(options.directory));
  self.address.rank = options.rank;
  if (::getrandom(self.address.nonce.data(), self.address.nonce.size(), 0) !=
      static_cast<ssize_t>(self.address.nonce.size())) {
    return systemError(errno, "rank %d, shm: drawing a nonce", options.rank);
  }
  const std::string stem = makeStem(options, self.address.nonce);
  stem.copy(self.address.stem.data(), self.address.stem.size() - 1);
  const bool looks = looksForOrphans(options.directory, *options.clock);
  if (const int orphans = looks ? removeOrphans(options.directory) : 0; orphans > 0) {
    options.log.info("shm", "removed %d files of dead processes from %s", orphans, options.directory.c_str());
  }
  HORING_ASSIGN(ShmFile presence, createPresenceFile(self.path(".rank"), kPresenceBytes,
                                                     formatString("rank %d's presence", options.rank)));
  self.can_populate = populatePages(presence.map.data(), kPresenceBytes);
  auto* page = new (presence.map.data()) PresencePage{};
  std::copy(std::begin(kShmMagic), std::end(kShmMagic), page->magic.begin());
  page->nonce = self.address.nonce;
  page->rank = options.rank;
  page->pid = ::getpid();
  page->is_made.store(1, std::memory_order_release);
  HORING_ASSIGN(ShmBellShare share, ShmBellShare::take(options.directory, options.job));
  share.bell().stem().copy(self.address.bell_stem.data(), self.address.bell_stem.size() - 1);
  return std::unique_ptr<Transport>(
      std::make_unique<ShmTransport>(options, std::move(self), std::move(presence), std::move(share)));
}

uint64_t shmRankBytes() {
  return kPresenceBytes + kBellPresenceBytes;
}

}  // namespace horing
