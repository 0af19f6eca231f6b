#pragma once
// Waiting for descriptors on many threads without an epoll and an eventfd for each. One thread of the process, the poll thread, waits in
// the kernel for the descriptors of all; the other threads wait for it on a condition variable.
#include <sys/epoll.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace horing {

class PollThread;

// The descriptors that one thread waits for. Used by that thread, except wake(). In a forked child it does nothing.
class Watch {
 public:
  static Result<std::unique_ptr<Watch>> open();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // `events`: EPOLLIN, EPOLLOUT or both; hang-ups and errors are always reported. Remove a descriptor before you close it.
  Status add(int fd, uint32_t events);
  void change(int fd, uint32_t events);
  void remove(int fd);

  // Waits until some descriptors are ready, for wake(), or at most `most_ms`. Returns the descriptors that are ready. Level-triggered: a
  // descriptor that is still ready is returned again by the next call.
  std::vector<int> wait(int most_ms);
  // Ends the wait, or the next one. Any thread.
  void wake();

 private:
  friend class PollThread;
  struct Interest {
    uint64_t id = 0;
    uint32_t events = 0;
  };

  explicit Watch(std::shared_ptr<PollThread> poll_thread) : poll_thread_(std::move(poll_thread)) {}
  void note(int fd);

  std::shared_ptr<PollThread> poll_thread_;
  std::map<int, Interest> interests_;
  // Returned by the last wait(); the poll thread reports each once, so they are armed again.
  std::vector<int> told_;
  struct News {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<int> ready;  // guarded by mutex
    bool woken = false;      // guarded by mutex
    bool all_ready = false;  // memory ran out: any descriptor may be ready; guarded by mutex
  };
  std::unique_ptr<News> news_ = std::make_unique<News>();
};

}  // namespace horing
