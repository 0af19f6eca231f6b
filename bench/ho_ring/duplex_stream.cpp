#include "ho_ring/duplex_stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <random>

namespace horing::bench {

namespace {

constexpr size_t kWriteBytes = 256 * 1024;
constexpr int kTokenWaitMs = 2000;

Status setUp(const Fd& fd) {
  const int on = 1;
  if (setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    return systemError(errno, "setsockopt TCP_NODELAY");
  // Where cubic is missing the system's default is what the link gives.
  (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
  return {};
}

Status waitFor(const Fd& fd, short events, Deadline deadline) {
  pollfd p = {fd.get(), events, 0};
  const int ready = ::poll(&p, 1, deadline.remainingMs());
  if (ready > 0) return {};
  if (ready == 0)
    return makeStatus(Code::kTimeout, "raw stream: the neighbouring node did not answer in time");
  return systemError(errno, "raw stream: poll");
}

Status readToken(const Fd& fd, uint64_t& token, Deadline deadline) {
  auto* to = reinterpret_cast<char*>(&token);
  for (size_t done = 0; done < sizeof token;) {
    HORING_TRY(waitFor(fd, POLLIN, deadline));
    const ssize_t got = ::recv(fd.get(), to + done, sizeof token - done, 0);
    if (got <= 0) return makeStatus(Code::kRemoteError, "raw stream: closed before its token");
    done += static_cast<size_t>(got);
  }
  return {};
}

// What one stream still has to do, in bytes.
struct Progress {
  uint64_t to_send;
  uint64_t to_receive;
};

// Not ready is no error.
Result<size_t> transferred(ssize_t result, const char* what) {
  if (result > 0) return static_cast<size_t>(result);
  if (result == 0)
    return makeStatus(Code::kRemoteError, "raw stream: the neighbouring node closed the connection");
  if (errno == EAGAIN || errno == EINTR) return size_t{0};
  return systemError(errno, "raw stream: %s", what);
}

Status advance(const DuplexStream& stream, Progress& progress, std::vector<char>& memory) {
  const auto piece = [](uint64_t left) { return static_cast<size_t>(std::min<uint64_t>(left, kWriteBytes)); };
  if (progress.to_send > 0) {
    const ssize_t sent =
        ::send(stream.out.get(), memory.data(), piece(progress.to_send), MSG_NOSIGNAL | MSG_DONTWAIT);
    HORING_ASSIGN(const size_t bytes, transferred(sent, "send"));
    progress.to_send -= bytes;
  }
  if (progress.to_receive > 0) {
    const ssize_t got =
        ::recv(stream.in.get(), memory.data() + kWriteBytes, piece(progress.to_receive), MSG_DONTWAIT);
    HORING_ASSIGN(const size_t bytes, transferred(got, "recv"));
    progress.to_receive -= bytes;
  }
  return {};
}

}  // namespace

Result<std::vector<in_addr>> interfaceAddresses(const std::vector<std::string>& names) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return systemError(errno, "getifaddrs");
  std::vector<in_addr> found(names.empty() ? 1 : names.size());
  std::vector<bool> have(found.size(), false);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET) continue;
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    const auto at =
        static_cast<size_t>(std::find(names.begin(), names.end(), entry->ifa_name) - names.begin());
    const size_t slot = names.empty() ? 0 : at;
    if (slot >= found.size() || have[slot] || (names.empty() && !usable)) continue;
    found[slot] = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    have[slot] = true;
  }
  freeifaddrs(list);
  for (size_t i = 0; i < have.size(); ++i)
    if (!have[i])
      return makeStatus(Code::kSystemError, "raw stream: interface %s has no IPv4 address",
                        names.empty() ? "(any)" : names[i].c_str());
  return found;
}

Result<StreamListener> StreamListener::open(in_addr address) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return systemError(errno, "raw stream: socket");
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr = address;
  socklen_t length = sizeof name;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0 || ::listen(fd.get(), 8) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0)
    return systemError(errno, "raw stream: cannot listen");
  std::random_device random;
  const uint64_t token = (static_cast<uint64_t>(random()) << 32) | random();
  return StreamListener(std::move(fd), {address, name.sin_port, token});
}

Result<Fd> StreamListener::accept(Deadline deadline) {
  const SteadyClock clock;
  for (;;) {
    HORING_TRY(waitFor(fd_, POLLIN, deadline));
    Fd peer(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.valid()) continue;
    uint64_t token = 0;
    if (!readToken(peer, token, Deadline::after(clock, kTokenWaitMs)).ok() || token != address_.token)
      continue;
    HORING_TRY(setUp(peer));
    return peer;
  }
}

Result<Fd> connectStream(const StreamAddress& to, Deadline deadline) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return systemError(errno, "raw stream: socket");
  HORING_TRY(setUp(fd));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr = to.address;
  name.sin_port = to.port;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 && errno != EINPROGRESS)
    return systemError(errno, "raw stream: connect to %s", inet_ntoa(to.address));
  HORING_TRY(waitFor(fd, POLLOUT, deadline));
  int error = 0;
  socklen_t length = sizeof error;
  (void)getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return systemError(error, "raw stream: connect to %s", inet_ntoa(to.address));
  if (::send(fd.get(), &to.token, sizeof to.token, MSG_NOSIGNAL) != sizeof to.token)
    return systemError(errno, "raw stream: send");
  return fd;
}

Status exchange(const std::vector<DuplexStream>& streams, uint64_t bytes, Deadline deadline) {
  std::vector<char> memory(2 * kWriteBytes);
  std::vector<Progress> left(streams.size(), {bytes, bytes});
  std::vector<pollfd> waits;
  for (;;) {
    waits.clear();
    for (size_t i = 0; i < streams.size(); ++i) {
      HORING_TRY(advance(streams[i], left[i], memory));
      if (left[i].to_send > 0) waits.push_back({streams[i].out.get(), POLLOUT, 0});
      if (left[i].to_receive > 0) waits.push_back({streams[i].in.get(), POLLIN, 0});
    }
    if (waits.empty()) return {};
    if (deadline.passed())
      return makeStatus(Code::kTimeout, "raw stream: %llu bytes did not get through in time",
                        static_cast<unsigned long long>(bytes));
    (void)::poll(waits.data(), waits.size(), deadline.remainingMs());
  }
}

}  // namespace horing::bench
