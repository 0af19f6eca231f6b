#include "control/job_window.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "control/control_messages.h"

namespace horing {

namespace {
std::atomic<int> places{0};
}  // namespace

JobWindow::Place::Place() : number(places.fetch_add(1, std::memory_order_relaxed)) {}
JobWindow::Place::~Place() {
  places.fetch_sub(1, std::memory_order_relaxed);
}

std::string jobWindowPrefix(uint64_t pid_namespace, int64_t pid) {
  return formatString("horing-job-%llu-%lld-", static_cast<unsigned long long>(pid_namespace),
                      static_cast<long long>(pid));
}

JobWindow JobWindow::open() {
  static std::atomic<unsigned> opened{0};
  JobWindow window;
  auto place = std::make_unique<Place>();
  if (place->number >= kMost) return window;
  const ProcessName process = thisProcess();
  const std::string name = jobWindowPrefix(process.pid_namespace, process.pid) +
                           std::to_string(opened.fetch_add(1, std::memory_order_relaxed));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  window.listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!window.valid() || ::bind(window.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(window.fd(), kMostVisitors) != 0)
    window.listener_.reset();
  if (window.valid()) window.place_ = std::move(place);
  return window;
}

// Connections beyond the limit are closed: left in the queue, they would wake the thread again and again.
bool JobWindow::admit() {
  for (size_t tried = 0; valid() && tried < kMostVisitors; ++tried) {
    Fd visitor(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    starved_ = !visitor.valid() && (errno == EMFILE || errno == ENFILE);
    if (!visitor.valid()) break;
    ucred who{};
    socklen_t length = sizeof who;
    const bool is_known = ::getsockopt(visitor.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0;
    if (is_known && (who.uid == ::geteuid() || who.uid == 0) && visitors_.size() < kMostVisitors)
      visitors_.push_back(std::move(visitor));
  }
  return !visitors_.empty();
}

// An answer fits into the buffer of a socket.
void JobWindow::answer(const std::string& text) {
  for (const Fd& visitor : visitors_)
    [[maybe_unused]] const ssize_t sent =
        ::send(visitor.get(), text.data(), std::min(text.size(), kMaxJobText), MSG_NOSIGNAL | MSG_DONTWAIT);
  visitors_.clear();
}

}  // namespace horing
