#pragma once
// epoll, one for each transport.
#include <sys/epoll.h>

#include <cstdint>
#include <utility>

#include "base/fd.h"
#include "base/status.h"

namespace horing::tcp {

// An object with a file descriptor. onEvents() only records the events: nothing may be destroyed in it, since later events of the
// same batch may be for the destroyed object.
class PollTarget {
 public:
  virtual ~PollTarget() = default;
  virtual void onEvents(uint32_t events) = 0;
};

// The events of one edge-triggered socket. An edge comes once, so each flag stays set until the socket returns EAGAIN.
struct Readiness {
  bool readable = true;
  bool writable = true;
  bool hangup = false;  // the end of the stream, or an error, comes after the data

  void take(uint32_t events) {
    readable = readable || (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    writable = writable || (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
    hangup = hangup || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  }
};

inline constexpr uint32_t kSocketEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

// Descriptors are registered through WatchedFd, except those that live as long as the poller. add() may be called from any thread
// once the poller is open.
class Poller {
 public:
  Status open();
  bool isOpen() const { return fd_.valid(); }
  Status add(int fd, uint32_t events, PollTarget& target);
  Status modify(int fd, uint32_t events, PollTarget& target);
  void remove(int fd);
  // Delivers pending events without waiting. Returns how many there were.
  int poll();
  int fd() const { return fd_.get(); }

 private:
  static constexpr int kBatch = 64;
  Fd fd_;
  epoll_event events_[kBatch];
};

// A descriptor and its registration. Closing alone would not end that: a forked child may hold a copy of the descriptor, and the
// kernel would still deliver events for the destroyed target. The poller must outlive this.
class WatchedFd {
 public:
  WatchedFd() = default;
  WatchedFd(Fd fd, Poller& poller) : fd_(std::move(fd)), poller_(&poller) {}
  WatchedFd(WatchedFd&& other) noexcept
      : fd_(std::move(other.fd_)),
        poller_(other.poller_),
        registered_(std::exchange(other.registered_, false)) {}
  WatchedFd& operator=(WatchedFd&& other) noexcept {
    if (this == &other) return *this;
    reset();
    fd_ = std::move(other.fd_);
    poller_ = other.poller_;
    registered_ = std::exchange(other.registered_, false);
    return *this;
  }
  ~WatchedFd() { reset(); }

  int get() const { return fd_.get(); }
  // From now on events go to `target`, which must outlive this or the next call. Delivers the present state first.
  Status watch(uint32_t events, PollTarget& target);
  void reset();

 private:
  Fd fd_;
  Poller* poller_ = nullptr;
  bool registered_ = false;
};

}  // namespace horing::tcp
