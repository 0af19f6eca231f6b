#pragma once
// Waiting for descriptors without an epoll and an eventfd for each thread that does: of the many threads of a process with many
// communicators all but one wait for that one, which waits for the kernel.
#include <sys/epoll.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace horing {

class Lookout;

// What one thread waits for: its descriptors, and a word of others. One thread, but for wake(). In a forked child it does nothing.
class Watch {
 public:
  static Result<std::unique_ptr<Watch>> open();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // EPOLLIN, EPOLLOUT or both; ends and errors are always reported. Remove it before it is closed.
  Status add(int fd, uint32_t events);
  void change(int fd, uint32_t events);
  void remove(int fd);

  // Waits until some are ready, at most so long, or for wake(). What one look leaves is ready in the next.
  std::vector<int> wait(int most_ms);
  // Ends the wait, or the next one. Any thread.
  void wake();

 private:
  friend class Lookout;
  struct Interest {
    uint64_t id = 0;
    uint32_t events = 0;
  };

  explicit Watch(std::shared_ptr<Lookout> lookout) : lookout_(std::move(lookout)) {}
  void note(int fd);

  std::shared_ptr<Lookout> lookout_;
  std::map<int, Interest> interests_;
  std::vector<int> told_;  // last time: the lookout has to be asked again
  struct News {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<int> ready;  // guarded by mutex
    bool woken = false;      // guarded by mutex
    bool all_ready = false;  // there was no memory to say which; guarded by mutex
  };
  std::unique_ptr<News> news_ = std::make_unique<News>();
};

}  // namespace horing
