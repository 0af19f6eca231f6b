#pragma once
// epoll, once per transport.
#include <sys/epoll.h>

#include <cstdint>

#include "base/fd.h"
#include "base/status.h"

namespace horing::tcp {

// Something with a file descriptor. onEvents() only takes notes: nothing may be destroyed from within it, since later
// events of the same batch may be for what would be gone.
class PollTarget {
 public:
  virtual ~PollTarget() = default;
  virtual void onEvents(uint32_t events) = 0;
};

// Notes about one edge-triggered socket. Edges come once, so each note stays until the socket said EAGAIN.
struct Readiness {
  bool readable = true;
  bool writable = true;
  bool hangup = false;  // the end of the stream, or an error, waits behind the data

  void take(uint32_t events) {
    readable = readable || (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    writable = writable || (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
    hangup = hangup || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  }
};

inline constexpr uint32_t kSocketEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

// Targets must outlive their registration; closing the descriptor ends it.
class Poller {
 public:
  Status open();
  Status add(int fd, uint32_t events, PollTarget& target);
  Status modify(int fd, uint32_t events, PollTarget& target);
  // Delivers what has happened, without waiting. Returns how many events there were.
  int poll();
  int fd() const { return fd_.get(); }

 private:
  static constexpr int kBatch = 64;
  Fd fd_;
  epoll_event events_[kBatch];
};

}  // namespace horing::tcp
