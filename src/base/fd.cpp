#include "base/fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace horing {

namespace {

// A handler of pthread_atfork has no argument, so its state is global: a bit for each descriptor that an Fd owns. No lock: in a
// child, a thread that no longer exists might hold it. Untouched pages of the bitmap cost no memory.
constexpr int kBits = 64;
std::atomic<uint64_t> owned[Fd::kMostClosedInChildren / kBits];
std::atomic<uint32_t> generation{0};

std::atomic<uint64_t>* wordOf(int fd) {
  return fd >= 0 && fd < Fd::kMostClosedInChildren ? &owned[fd / kBits] : nullptr;
}
uint64_t bitOf(int fd) {
  return uint64_t{1} << (fd % kBits);
}

// Runs first in the child, which has no other thread then.
void closeAll() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (int word = 0; word < Fd::kMostClosedInChildren / kBits; ++word) {
    if (owned[word].load(std::memory_order_relaxed) == 0) continue;
    const uint64_t bits = owned[word].exchange(0, std::memory_order_relaxed);
    for (int bit = 0; bit < kBits; ++bit)
      if (bits >> bit & 1) ::close(word * kBits + bit);
  }
}

int aboveStandard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  return moved;
}

}  // namespace

void Fd::reset(int fd) {
  fd = aboveStandard(fd);
  const uint32_t now = generation.load(std::memory_order_relaxed);
  if (fd_ >= 0 && generation_ == now) {
    // The bit goes first: another thread may get the number again as soon as it is closed.
    if (auto* word = wordOf(fd_)) word->fetch_and(~bitOf(fd_), std::memory_order_relaxed);
    ::close(fd_);
  }
  fd_ = fd;
  generation_ = now;
  if (auto* word = wordOf(fd)) word->fetch_or(bitOf(fd), std::memory_order_relaxed);
}

int Fd::release() {
  if (auto* word = wordOf(fd_)) word->fetch_and(~bitOf(fd_), std::memory_order_relaxed);
  return std::exchange(fd_, -1);
}

void Fd::closeInForkedChildren() {
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, closeAll);
}

}  // namespace horing
