#include "comm/stream.h"

#include <utility>

#include "base/check.h"

namespace horing {

Stream::Turn Stream::enter() {
  const std::lock_guard lock(mutex_);
  return next_++;
}

void Stream::awaitTurn(Turn turn) {
  std::unique_lock lock(mutex_);
  finished_turn_.wait(lock, [&] { return finished_ == turn; });
}

void Stream::finish(Turn turn, const Status& status) {
  std::deque<Waiting> due;
  Status error;
  {
    const std::lock_guard lock(mutex_);
    HORING_CHECK_EQ(finished_, turn);
    ++finished_;
    if (error_.ok() && !status.ok()) error_ = status;
    error = error_;
    while (!callbacks_.empty() && callbacks_.front().after <= finished_) {
      due.push_back(std::move(callbacks_.front()));
      callbacks_.pop_front();
    }
    finished_turn_.notify_all();
  }
  for (const Waiting& waiting : due) waiting.callback(error);
}

void Stream::callBack(Callback callback) {
  Status error;
  {
    const std::lock_guard lock(mutex_);
    if (finished_ < next_) {
      callbacks_.push_back({next_, std::move(callback)});
      return;
    }
    error = error_;
  }
  callback(error);
}

Status Stream::synchronize() {
  std::unique_lock lock(mutex_);
  const Turn all = next_;
  finished_turn_.wait(lock, [&] { return finished_ >= all; });
  return std::exchange(error_, Status());
}

bool Stream::idle() const {
  const std::lock_guard lock(mutex_);
  return finished_ == next_;
}

}  // namespace horing
