#include "comm/command_queue.h"

#include <utility>

#include "base/service_thread.h"

namespace horing {

CommandQueue::~CommandQueue() {
  if (!thread_.joinable()) return;
  // A forked child has a copy of this object, but not the thread.
  if (communicator_.isForkedChild()) {
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Status CommandQueue::carryOut(const Command& command) {
  return command.transfers.empty() ? communicator_.run(command.collective, command.call)
                                   : communicator_.exchange(command.transfers);
}

Status CommandQueue::run(const Command& command) {
  // acquire: pairs with the release in submit().
  if (has_thread_.load(std::memory_order_acquire)) drain();
  return carryOut(command);
}

Status CommandQueue::submit(Command command, Stream& stream) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    HORING_ASSIGN(thread_, startServiceThread("a communicator's operations", [this] { serve(); }));
    has_thread_.store(true, std::memory_order_release);
  }
  changed_.wait(lock, [this] { return entries_.size() < kMaxQueued; });
  entries_.push_back({std::move(command), &stream, stream.enter()});
  changed_.notify_all();
  return {};
}

void CommandQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return entries_.empty(); });
}

void CommandQueue::abandonTurns() {
  const std::lock_guard lock(mutex_);
  turns_abandoned_ = true;
  if (!entries_.empty()) entries_.front().stream->wake();  // it outlives its operations
}

// The thread: ends when it is told to and nothing is left.
void CommandQueue::serve() {
  for (;;) {
    Entry* entry = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !entries_.empty(); });
      if (entries_.empty()) return;
      entry = &entries_.front();  // stays where it is while others are added behind it
    }
    entry->stream->awaitTurn(entry->turn, turns_abandoned_);
    const Status status = carryOut(entry->command);
    Stream& stream = *entry->stream;
    const Stream::Turn turn = entry->turn;
    {
      const std::lock_guard lock(mutex_);
      entries_.pop_front();
      changed_.notify_all();
    }
    stream.finish(turn, status);
  }
}

}  // namespace horing
