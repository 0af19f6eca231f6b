#include "comm/queue/stream.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace horing {

void Stream::enter(std::span<StreamTurn> turns) {
  // A common lock order for threads that lock several streams.
  std::ranges::sort(turns, std::less(), &StreamTurn::stream);
  for (const StreamTurn& each : turns) each.stream->mutex_.lock();
  for (StreamTurn& each : turns) each.turn = each.stream->next_++;
  for (const StreamTurn& each : turns) each.stream->mutex_.unlock();
}

void Stream::awaitTurn(Turn turn, const std::function<bool()>& abandoned) {
  std::unique_lock lock(mutex_);
  finished_turn_.wait(lock, [&] { return finished_ == turn || abandoned(); });
}

bool Stream::isTurn(Turn turn) const {
  const std::lock_guard lock(mutex_);
  return finished_ == turn;
}

void Stream::wake() {
  const std::lock_guard lock(mutex_);
  finished_turn_.notify_all();
}

// Under mutex_.
void Stream::finishNext(const Status& status) {
  if (error_.ok() && !status.ok()) {
    error_ = status;
    error_turn_ = finished_;
  }
  ++finished_;
}

void Stream::finish(Turn turn, const Status& status, DueCallbacks& due) {
  const std::lock_guard lock(mutex_);
  if (turn != finished_) {
    abandoned_.emplace(turn, status);
    return;
  }
  finishNext(status);
  for (auto next = abandoned_.begin(); next != abandoned_.end() && next->first == finished_;
       next = abandoned_.erase(next))
    finishNext(next->second);
  while (!callbacks_.empty() && callbacks_.front().after <= finished_) {
    callbacks_.front().error = errorBefore(callbacks_.front().after);
    due.due_.splice(due.due_.end(), callbacks_, callbacks_.begin());
  }
  finished_turn_.notify_all();
}

// Under mutex_.
Status Stream::errorBefore(Turn mark) const {
  return error_turn_ < mark ? error_ : Status();
}

void Stream::callBack(Callback callback, Turn mark) {
  Status error;
  {
    const std::lock_guard lock(mutex_);
    mark = std::min(mark, next_);
    if (finished_ < mark) {
      auto place = callbacks_.end();
      while (place != callbacks_.begin() && std::prev(place)->after > mark) --place;
      callbacks_.insert(place, {mark, std::move(callback)});
      return;
    }
    error = errorBefore(mark);
  }
  callback(error);
}

Status Stream::synchronize() {
  std::unique_lock lock(mutex_);
  const Turn all = next_;
  finished_turn_.wait(lock, [&] { return finished_ >= all; });
  return std::exchange(error_, Status());
}

Stream::Turn Stream::mark() const {
  const std::lock_guard lock(mutex_);
  return next_;
}

Status Stream::wait(Turn mark, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  mark = std::min(mark, next_);
  if (!finished_turn_.wait_for(lock, timeout, [&] { return finished_ >= mark; }))
    return Status(Code::kInProgress, "operations on the stream are not complete yet");
  return errorBefore(mark);
}

Status Stream::query() {
  const std::lock_guard lock(mutex_);
  if (finished_ < next_) return Status(Code::kInProgress, "operations on the stream are not complete yet");
  return std::exchange(error_, Status());
}

}  // namespace horing
