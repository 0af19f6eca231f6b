#include "transport/socket/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

namespace horing::tcp {

namespace {

constexpr int kBacklog = 1024;
// An idle connection to a machine that is gone ends after about 3 + 5 x 1 seconds. TCP_USER_TIMEOUT is left
// alone on purpose: it also ends connections to a healthy peer that merely does not read for a while (a
// closed window). What is unanswered while data is on its way is judged by SocketStream::checkAlive().
constexpr int kKeepIdleSeconds = 3;
constexpr int kKeepIntervalSeconds = 1;
constexpr int kKeepCount = 5;

Status setOption(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof value) == 0) return {};
  return systemError(errno, "socket option %s=%d", name, value);
}

bool setCongestion(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size())) ==
         0;
}

Result<Listening> listenOnFamily(bool v6, uint16_t port) {
  HORING_ASSIGN(Fd fd, openSocket(v6));
  if (v6) HORING_TRY(setOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY"));
  const SockAddr any = toSockAddr({.address = {.bytes = {}, .v6 = v6}, .port = port});
  // A port that was ours is taken again although connections of that time linger; a free one is to be nobody else's.
  if (port != 0) HORING_TRY(setOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  if (::bind(fd.get(), any.get(), any.length) != 0) return systemError(errno, "bind to TCP port %u", port);
  HORING_TRY(setOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  if (::listen(fd.get(), kBacklog) != 0) return systemError(errno, "listen on a TCP port");
  SockAddr bound;
  bound.length = sizeof bound.storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0)
    return systemError(errno, "getsockname of a listening TCP port");
  const in_port_t bound_port = v6 ? reinterpret_cast<const sockaddr_in6*>(&bound.storage)->sin6_port
                                  : reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port;
  return Listening{std::move(fd), ntohs(bound_port)};
}

}  // namespace

std::string addressText(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  return text;
}

std::string endpointText(const Endpoint& endpoint) {
  return formatString(endpoint.address.v6 ? "[%s]:%u" : "%s:%u", addressText(endpoint.address).c_str(),
                      endpoint.port);
}

SockAddr toSockAddr(const Endpoint& endpoint) {
  SockAddr out;
  if (endpoint.address.v6) {
    auto* in = reinterpret_cast<sockaddr_in6*>(&out.storage);
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(endpoint.port);
    std::memcpy(&in->sin6_addr, endpoint.address.bytes.data(), 16);
    out.length = sizeof *in;
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&out.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(endpoint.port);
    std::memcpy(&in->sin_addr, endpoint.address.bytes.data(), 4);
    out.length = sizeof *in;
  }
  return out;
}

IpAddress fromSockAddr(const sockaddr& from) {
  IpAddress address;
  address.v6 = from.sa_family == AF_INET6;
  if (address.v6) {
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, 16);
  } else {
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in&>(from).sin_addr, 4);
  }
  return address;
}

std::string peerText(int fd) {
  SockAddr peer;
  peer.length = sizeof peer.storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) return "a client";
  const bool v6 = peer.storage.ss_family == AF_INET6;
  const in_port_t port = v6 ? reinterpret_cast<const sockaddr_in6*>(&peer.storage)->sin6_port
                            : reinterpret_cast<const sockaddr_in*>(&peer.storage)->sin_port;
  return endpointText({.address = fromSockAddr(*peer.get()), .port = ntohs(port)});
}

Result<Fd> openSocket(bool v6) {
  Fd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return systemError(errno, "open a TCP socket");
  return fd;
}

Status tuneSocket(int fd, const SocketTuning& tuning) {
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  HORING_TRY(setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds, "TCP_KEEPIDLE"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds, "TCP_KEEPINTVL"));
  HORING_TRY(setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount, "TCP_KEEPCNT"));
  // The default is a preference: cubic moves twice what bbr does over loopback and holds shaped links better.
  if (tuning.congestion.empty()) {
    setCongestion(fd, "cubic");
  } else if (!setCongestion(fd, tuning.congestion)) {
    return systemError(errno,
                       "HORING_SOCKET_CONGESTION=%s: this kernel does not offer it "
                       "(see /proc/sys/net/ipv4/tcp_available_congestion_control)",
                       tuning.congestion.c_str());
  }
  return {};
}

Result<Listening> listenEverywhere(uint16_t port) {
  Result<Listening> both = listenOnFamily(true, port);
  return both.ok() ? std::move(both) : listenOnFamily(false, port);
}

}  // namespace horing::tcp
