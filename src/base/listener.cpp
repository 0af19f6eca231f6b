#include "base/listener.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace horing {

namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr int kMostBroken = 64;  // connections in a row that ended before they were accepted

enum class Purpose : uint8_t { kListen, kReserve };

Status setFlag(const Fd& fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd.get(), level, option, &value, sizeof value) == 0) return {};
  return systemError(errno, "socket option %s=%d", name, value);
}

Result<Listener> bindTo(const Endpoint& where, bool also_v4, Purpose purpose) {
  const Address::Family family = where.address.family;
  HORING_ASSIGN(Fd fd, openSocket(family));
  if (family == Address::Family::kIpv6)
    HORING_TRY(setFlag(fd, IPPROTO_IPV6, IPV6_V6ONLY, also_v4 ? 0 : 1, "IPV6_V6ONLY"));
  const bool listens = purpose == Purpose::kListen;
  // A port that was ours is taken again although old connections linger. A free port must have no other owner, and a reserved port
  // must not be given to another process that reserves it the same way.
  if (listens && where.port != 0) HORING_TRY(setFlag(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  const SockAddr address = toSockAddr(where);
  if (::bind(fd.get(), address.get(), address.length) != 0)
    return systemError(errno, "cannot listen on %s", where.text().c_str());
  if (listens) {
    HORING_TRY(setFlag(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
    if (::listen(fd.get(), kListenBacklog) != 0)
      return systemError(errno, "cannot listen on %s", where.text().c_str());
  }
  const bool has_ports = family != Address::Family::kLocal;
  const uint16_t port = has_ports ? ownEndpoint(fd.get()).port : where.port;
  return Listener{std::move(fd), port};
}

Result<Listener> bindToAll(uint16_t port, Purpose purpose) {
  Result<Listener> both = bindTo({{.family = Address::Family::kIpv6}, port}, true, purpose);
  if (both.ok()) return both;
  // No IPv6 in this kernel or container; or the port is taken, which IPv4 then reports as well.
  return bindTo({{.family = Address::Family::kIpv4}, port}, false, purpose);
}

}  // namespace

Result<Listener> listenOn(const Address* address, uint16_t port) {
  return address ? bindTo({*address, port}, false, Purpose::kListen) : bindToAll(port, Purpose::kListen);
}

Result<Listener> listenOn(const Address* address, const PortRange& ports) {
  return listenWithin(ports, [&](uint16_t port) { return listenOn(address, port); });
}

Result<Listener> reservePort(const Address* local, const PortRange& ports) {
  if (local) return bindTo({*local, 1}, false, Purpose::kReserve);
  return listenWithin(ports, [](uint16_t port) { return bindToAll(port, Purpose::kReserve); });
}

Accepted acceptNext(const Fd& listener) {
  for (int tries = 0; tries < kMostBroken; ++tries) {
    SockAddr from;
    from.length = sizeof from.storage;
    Fd fd(::accept4(listener.get(), from.get(), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid())
      return {.outcome = Accepted::Outcome::kOne, .fd = std::move(fd), .from = toEndpoint(*from.get())};
    const int error = errno;
    if (error == EINVAL) return {.outcome = Accepted::Outcome::kDestroyed, .fd = {}, .error = error};
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      // The kernel reports a lack of descriptors before it checks for waiting connections.
      pollfd queue{.fd = listener.get(), .events = POLLIN, .revents = 0};
      return {.outcome = ::poll(&queue, 1, 0) > 0 ? Accepted::Outcome::kLacking : Accepted::Outcome::kNone,
              .fd = {},
              .error = error};
    }
    if (error == EAGAIN || error == EWOULDBLOCK) return {};
    // Everything else is about that one connection.
  }
  return {};
}

Accepted acceptWaiting(const Fd& listener, const std::function<void(Accepted)>& admit,
                       const std::function<bool(int error)>& makeRoom) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Accepted next = acceptNext(listener);
    if (next.outcome == Accepted::Outcome::kOne)
      admit(std::move(next));
    else if (next.outcome != Accepted::Outcome::kLacking || !makeRoom(next.error))
      return next;
  }
  return {};
}

Result<Fd> openSocket(Address::Family family) {
  const int domain = family == Address::Family::kLocal  ? AF_UNIX
                     : family == Address::Family::kIpv6 ? AF_INET6
                                                        : AF_INET;
  Fd fd(::socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return systemError(errno, "a socket could not be made");
  return fd;
}

int beginConnect(int socket, const Endpoint& to) {
  const SockAddr target = toSockAddr(to);
  const int scope = static_cast<int>(to.address.scope);
  // The kernel's addresses of IPv4 have no scope.
  if (scope != 0 && !to.address.isV6() &&
      ::setsockopt(socket, SOL_SOCKET, SO_BINDTOIFINDEX, &scope, sizeof scope) != 0)
    return errno;
  if (::connect(socket, target.get(), target.length) == 0 || errno == EINPROGRESS) return 0;
  return errno;
}

}  // namespace horing
