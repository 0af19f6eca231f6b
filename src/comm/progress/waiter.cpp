#include "comm/progress/waiter.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace horing {

namespace {
// Nobody in a wait keeps the core this long: who does is another program, or a rank that computes.
constexpr int64_t kForeignTurnNs = 1'000'000;
// How long to believe that it is still there: twice as long each time that one is there when this has passed.
constexpr int64_t kShortestNoYieldNs = 2'000'000;
constexpr int64_t kLongestNoYieldNs = 128'000'000;

// Leaves the core to its other hardware thread for a moment.
void pauseCore() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}
}  // namespace

Result<Waiter> Waiter::create(WaitPolicy policy, std::span<const int> fds) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return systemError(errno, "epoll_create1");
  Waiter waiter(policy, std::move(epoll));
  for (const int fd : fds)
    if (fd >= 0) HORING_TRY(waiter.watch(fd));
  return waiter;
}

Status Waiter::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return systemError(errno, "epoll_ctl on descriptor %d", fd);
  return {};
}

Waiter::Step Waiter::idle(int64_t now_ns) {
  if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
  if (yielded_ns_ != 0 && now_ns - yielded_ns_ > kForeignTurnNs) noteForeignTurn(now_ns);
  yielded_ns_ = 0;
  const int64_t idle_ns = now_ns - idle_since_ns_;
  if (idle_ns < policy_.spin_ns) {
    pauseCore();
    return Step::kAgain;
  }
  if (idle_ns < policy_.spin_ns + policy_.yield_ns && now_ns >= no_yield_until_ns_) {
    yielded_ns_ = now_ns;
    ::sched_yield();
    return Step::kAgain;
  }
  return Step::kBlock;
}

void Waiter::noteForeignTurn(int64_t now_ns) {
  const bool is_there_still = yielded_ns_ - no_yield_until_ns_ < no_yield_ns_;
  no_yield_ns_ = is_there_still ? std::min(2 * no_yield_ns_, kLongestNoYieldNs) : kShortestNoYieldNs;
  no_yield_until_ns_ = now_ns + no_yield_ns_;
}

void Waiter::forget(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Waiter::block(std::chrono::microseconds timeout) {
  pollfd any{epoll_.get(), POLLIN, 0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec at_most{seconds.count(), std::chrono::nanoseconds(timeout - seconds).count()};
  // A signal or a time-out just means looking again.
  [[maybe_unused]] const int ready = ::ppoll(&any, 1, &at_most, nullptr);
}

}  // namespace horing
