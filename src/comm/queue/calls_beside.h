#pragma once
// The part of a queue that goes beside other operations.
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/fd.h"
#include "comm/queue/command_queue.h"

namespace horing {

// The queue's messages beside other operations, as the progress loop sees them. Used by command_queue.cpp only.
class CommandQueue::CallsBeside final : public MessageSource {
 public:
  explicit CallsBeside(CommandQueue& queue)
      : queue_(queue), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Ok unless there is no descriptor left.
  Status status() const {
    return wake_.valid() ? Status()
                         : systemError(errno, "eventfd (raise the limit of open files: ulimit -n)");
  }

  // Under the queue's mutex: another thread has added an entry to the queue.
  void notify() {
    if (has_news_.exchange(true)) return;
    // Cannot fail: the 64-bit counter never overflows.
    [[maybe_unused]] const int woken = ::eventfd_write(wake_.get(), 1);
  }

  // Drives messages until none is in flight, or the thread is needed elsewhere.
  void drive() {
    setInside(true);
    has_news_ = true;
    const std::optional<Status> status = queue_.communicator_.messages().driveBeside();
    if (status && !status->ok()) failAll(*status);
    setInside(false);
    if (!status) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // another thread is in a call
  }

  // Under the queue's mutex: whether the thread is in the communicator, perhaps with no entry left.
  bool isInside() const { return is_inside_; }
  // Called by the thread.
  bool hasUnderWay() const { return !under_way_.empty(); }

  bool takeNews() override {
    if (!has_news_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(queue_.mutex_);  // as notify()
    has_news_ = false;
    eventfd_t ignored = 0;
    [[maybe_unused]] const int read = ::eventfd_read(wake_.get(), &ignored);
    return true;
  }
  bool mayHaveMore() override { return waits_; }

  std::optional<Call> take() override {
    const std::lock_guard lock(queue_.mutex_);
    const auto other = queue_.nextOther();
    wants_thread_ = other != queue_.entries_.end() && queue_.isTurnOf(*other);
    const auto message = queue_.nextMessageWhoseTurnItIs();
    if (message != queue_.entries_.end()) {
      under_way_.emplace(++last_ticket_, message);
      message->ticket = last_ticket_;
      return Call{message->command.transfers(), message->ticket};
    }
    waits_ =
        queue_.nextMessage() != queue_.entries_.end() || (other != queue_.entries_.end() && !wants_thread_);
    pause_ = !waits_ ? Pause::kUntilRung : queue_.awaitsGpu() ? Pause::kForStream : Pause::kBriefly;
    return std::nullopt;
  }

  bool wantsThread() const override { return wants_thread_; }
  Pause pause() const override { return pause_; }
  bool isOwnThread() const override { return queue_.isOwnThread(); }
  void finished(uint64_t ticket) override { end(ticket, {}); }
  int wakeFd() const override { return wake_.get(); }

 private:
  // Fails all messages in flight; if none is, the message that was about to begin.
  void failAll(const Status& status) {
    if (under_way_.empty()) {
      std::unique_lock lock(queue_.mutex_);
      const auto message = queue_.nextMessageWhoseTurnItIs();
      lock.unlock();
      if (message != queue_.entries_.end()) queue_.finish(message, status);
    }
    while (!under_way_.empty()) end(under_way_.begin()->first, status);
  }

  void end(uint64_t ticket, const Status& status) {
    queue_.finish(under_way_.extract(ticket).mapped(), status);
    has_news_ = true;  // the next operation on its stream may be ready
  }

  void setInside(bool is_inside) {
    const std::lock_guard lock(queue_.mutex_);
    is_inside_ = is_inside;
    queue_.changed_.notify_all();
  }

  CommandQueue& queue_;
  Fd wake_;
  std::atomic<bool> has_news_{false};
  bool wants_thread_ = false;
  // An operation waits for its turn on a stream, perhaps for an operation of another communicator, which does not notify this queue.
  bool waits_ = false;
  Pause pause_ = Pause::kUntilRung;  // while it waits
  bool is_inside_ = false;           // under the queue's mutex
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Entries::iterator> under_way_;  // by ticket
};

}  // namespace horing
