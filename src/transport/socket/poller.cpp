#include "transport/socket/poller.h"

#include <cerrno>

namespace horing::tcp {

namespace {
Status control(int epoll, int operation, int fd, epoll_event event) {
  if (::epoll_ctl(epoll, operation, fd, &event) == 0) return {};
  return systemError(errno, "watch a socket with epoll");
}
}  // namespace

Status Poller::open() {
  fd_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd_.valid()) return systemError(errno, "open an epoll descriptor");
  return {};
}

Status Poller::add(int fd, uint32_t events, PollTarget& target) {
  return control(fd_.get(), EPOLL_CTL_ADD, fd, {.events = events, .data = {.ptr = &target}});
}

Status Poller::modify(int fd, uint32_t events, PollTarget& target) {
  return control(fd_.get(), EPOLL_CTL_MOD, fd, {.events = events, .data = {.ptr = &target}});
}

void Poller::remove(int fd) {
  ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Status WatchedFd::watch(uint32_t events, PollTarget& target) {
  if (registered_) return poller_->modify(fd_.get(), events, target);
  HORING_TRY(poller_->add(fd_.get(), events, target));
  registered_ = true;
  return {};
}

void WatchedFd::reset() {
  if (std::exchange(registered_, false)) poller_->remove(fd_.get());
  fd_.reset();
}

int Poller::poll() {
  const int count = ::epoll_wait(fd_.get(), events_, kBatch, 0);
  for (int i = 0; i < count; ++i) static_cast<PollTarget*>(events_[i].data.ptr)->onEvents(events_[i].events);
  return count;
}

}  // namespace horing::tcp
