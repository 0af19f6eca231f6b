#include "transport/shm/bell.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include "base/hex.h"
#include "base/per_process.h"
#include "base/rights.h"
#include "transport/shm/layout.h"

namespace horing {
namespace {

// The bells of this process. A process that changes its user makes new bells, since peers refuse files of the former user.
struct Bells {
  using Place = std::pair<std::string, uid_t>;
  std::mutex mutex;
  std::map<Place, std::vector<std::weak_ptr<ShmBell>>> made;
};

struct PeerBells {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const ShmPeerBell>> opened;  // by path
};

}  // namespace

Result<std::shared_ptr<ShmBell>> ShmBell::make(const std::string& directory) {
  std::array<uint8_t, 16> nonce{};
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    return systemError(errno, "shm: drawing a nonce");
  std::string stem = "horing-process-" + hexText(std::as_bytes(std::span(nonce)));
  const std::string path = directory + "/" + stem;
  HORING_ASSIGN(ShmFile presence,
                createPresenceFile(path + ".rank", kBellPresenceBytes, "the presence of this process"));
  HORING_ASSIGN(OwnedName name, createBell(path + ".bell"));
  return std::shared_ptr<ShmBell>(new ShmBell(std::move(stem), std::move(presence), std::move(name)));
}

Result<int> ShmBell::open() {
  const std::lock_guard lock(mutex_);
  if (!fd_.valid()) {
    HORING_ASSIGN(fd_, openBell(name_.path()));
  }
  return fd_.get();
}

void ShmBell::beginWait(DoorbellFlag* flag) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(flag);
  Doorbell(flag, fd_.get()).beginWait();
}

void ShmBell::endWait(DoorbellFlag* flag) {
  const std::lock_guard lock(mutex_);
  std::erase(waiting_, flag);
  Doorbell(flag, fd_.get()).endWait();
  // The ring that was just consumed may have been for another rank, which must find it when it blocks.
  const uint64_t one = 1;
  if (isForSomebody()) [[maybe_unused]]
    const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

bool ShmBell::isThere() const {
  return ::access(name_.path().c_str(), F_OK) == 0 && ::access(presence_.name.path().c_str(), F_OK) == 0;
}

bool ShmBell::isForSomebody() const {
  // acquire: pairs with the exchange in DoorbellButton::wake(), before which it was 1.
  return std::ranges::any_of(
      waiting_, [](const DoorbellFlag* flag) { return flag->sleeping.load(std::memory_order_acquire) == 0; });
}

Result<ShmBellShare> ShmBellShare::take(const std::string& directory, const std::string& job) {
  auto& bells = perProcess<Bells>();
  const std::lock_guard lock(bells.mutex);
  auto& made = bells.made[{directory, Rights().user}];
  std::erase_if(made, [](const auto& bell) { return bell.expired(); });
  for (const auto& known : made)
    if (auto bell = known.lock(); bell && bell->isThere() && bell->jobs_.insert(job).second)
      return ShmBellShare(bell, job);
  HORING_ASSIGN(auto bell, ShmBell::make(directory));
  bell->jobs_.insert(job);
  made.push_back(bell);
  return ShmBellShare(bell, job);
}

ShmBellShare::~ShmBellShare() {
  if (!bell_) return;
  const std::lock_guard lock(perProcess<Bells>().mutex);
  bell_->jobs_.erase(job_);
}

Result<std::shared_ptr<const ShmPeerBell>> ShmPeerBell::open(const std::string& directory,
                                                             const std::string& stem) {
  const std::string path = directory + "/" + stem;
  auto& bells = perProcess<PeerBells>();
  const std::lock_guard lock(bells.mutex);
  std::erase_if(bells.opened, [](const auto& entry) { return entry.second.expired(); });
  if (auto known = bells.opened[path].lock()) return known;
  const auto opened = std::make_shared<ShmPeerBell>();
  HORING_ASSIGN(opened->lock_, openShmFile(path + ".rank"));
  if (!opened->lock_.valid())
    return makeStatus(Code::kRemoteError, "%s.rank is not there: its process has left", path.c_str());
  HORING_ASSIGN(opened->bell_, openBell(path + ".bell"));
  bells.opened[path] = opened;
  return std::shared_ptr<const ShmPeerBell>(opened);
}

}  // namespace horing
