#include "horing_check/time_limit.h"

namespace horing::check {

TimeLimit::TimeLimit(std::chrono::steady_clock::time_point end, void (*exit)()) : end_(end), exit_(exit) {
  // Without a thread, timeouts alone limit the time.
  (void)thread_.start("the end of the check's time", [this] { run(); });
}

TimeLimit::~TimeLimit() {
  thread_.end([this] {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
  });
}

void TimeLimit::add(horingComm_t comm) {
  const std::lock_guard lock(mutex_);
  if (comm) comms_.insert(comm);
  if (is_over_) revokeAll();
}

void TimeLimit::remove(horingComm_t comm) {
  const std::lock_guard lock(mutex_);
  comms_.erase(comm);
}

bool TimeLimit::isOver() {
  const std::lock_guard lock(mutex_);
  return is_over_;
}

// Revoking does not wait for the calls that it ends.
void TimeLimit::revokeAll() {
  for (const horingComm_t comm : comms_) (void)horingCommRevoke(comm, 0);
  comms_.clear();
}

void TimeLimit::run() {
  std::unique_lock lock(mutex_);
  const auto is_done = [this] { return is_done_; };
  if (changed_.wait_until(lock, end_ + kRevokedAfter, is_done)) return;
  is_over_ = true;
  revokeAll();
  if (changed_.wait_until(lock, end_ + kExitedAfter, is_done)) return;
  exit_();
}

}  // namespace horing::check
