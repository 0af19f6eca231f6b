#include "comm/progress/waiter.h"

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "base/pause.h"

namespace horing {

namespace {
// No waiting rank keeps the core this long: another program, or a rank that computes, does.
constexpr int64_t kForeignTurnNs = 1'000'000;
// How long to believe that it is still there: twice as long each time that one is there when this has passed.
constexpr int64_t kShortestNoYieldNs = 2'000'000;
constexpr int64_t kLongestNoYieldNs = 128'000'000;
}  // namespace

size_t Waiter::watch(int fd) {
  watched_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  return watched_.size() - 1;
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

void Waiter::block(std::chrono::microseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec at_most{seconds.count(), std::chrono::nanoseconds(timeout - seconds).count()};
  // A signal or a time-out just means looking again.
  [[maybe_unused]] const int ready = ::ppoll(watched_.data(), watched_.size(), &at_most, nullptr);
}

}  // namespace horing
