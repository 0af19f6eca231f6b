#pragma once
// Streams and events of the fake driver: each stream is a thread that does one thing after the other.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace horing::fake {

// The calling thread, which has its own streams, also where it has the ID of one that has ended.
inline int thisThread() {
  static std::atomic<int> last = 0;
  thread_local const int own = ++last;
  return own;
}

// Runs work in order, on a thread. Any thread may add.
class Queue {
 public:
  Queue() : thread_([this] { serve(); }) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  // Finishes the remaining work first.
  ~Queue() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    if (works_.size() == 1) changed_.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return works_.empty(); });
  }
  bool idle() {
    const std::lock_guard lock(mutex_);
    return works_.empty();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !works_.empty(); });
      if (works_.empty()) return;
      const std::function<void()>& work =
          works_.front();  // stays where it is while others are added behind it
      lock.unlock();
      work();
      lock.lock();
      works_.pop_front();
      if (works_.empty()) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  bool stop_ = false;
  std::thread thread_;
};

// Counts its recordings, and knows which of them a stream has reached: a wait for one does not end with a later one on another
// stream.
struct Event {
  const void* context;  // whose streams may record it
  std::mutex mutex{};
  std::condition_variable reached{};
  uint64_t recorded = 0;
  std::set<uint64_t> completed{0};

  uint64_t record() {
    const std::lock_guard lock(mutex);
    return ++recorded;
  }
  uint64_t latest() {
    const std::lock_guard lock(mutex);
    return recorded;
  }
  void complete(uint64_t number) {
    const std::lock_guard lock(mutex);
    completed.insert(number);
    reached.notify_all();
  }
  void await(uint64_t number) {
    std::unique_lock lock(mutex);
    reached.wait(lock, [&] { return completed.contains(number); });
  }
  bool done() {
    const std::lock_guard lock(mutex);
    return completed.contains(recorded);
  }
};

}  // namespace horing::fake
