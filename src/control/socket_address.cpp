#include "control/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/auth.h"
#include "transport/socket/interfaces.h"

namespace horing {

namespace {

enum class Purpose : uint8_t { kListen, kReserve };
// Of a kLocal address: the leading NUL keeps it out of the file system.
constexpr std::string_view kLocalPrefix{"\0horing-", 8};
constexpr uint16_t kLocalPort = 1;
constexpr size_t kLocalNameBytes = kLocalPrefix.size() + sizeof RootAddress::ip;
constexpr socklen_t kLocalLength = offsetof(sockaddr_un, sun_path) + kLocalNameBytes;

SocketAddress localSocketAddress(const RootAddress& address) {
  SocketAddress out;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, kLocalPrefix.data(), kLocalPrefix.size());
  std::memcpy(name.sun_path + kLocalPrefix.size(), address.ip.data(), address.ip.size());
  std::memcpy(&out.storage, &name, sizeof name);
  out.length = kLocalLength;
  return out;
}

Result<Listener> bindTo(const SocketAddress& address, int dual_stack, Purpose purpose) {
  Listener listener;
  const int family = address.storage.ss_family;
  listener.fd.reset(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.fd.valid()) return systemError(errno, "a socket for the rendezvous could not be made");
  const int on = 1;
  // A port that is reserved must not be given to others who say the same.
  if (purpose == Purpose::kListen) ::setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int only_v6 = dual_stack ? 0 : 1;
  if (family == AF_INET6)
    ::setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  const std::string where = family == AF_UNIX ? "a local name" : toRootAddress(address.storage).toString();
  if (::bind(listener.fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      (purpose == Purpose::kListen && ::listen(listener.fd.get(), kListenBacklog) != 0))
    return systemError(errno, "the rendezvous cannot listen on %s", where.c_str());
  listener.port = kLocalPort;
  if (family == AF_UNIX) return listener;
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (::getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0)
    return systemError(errno, "the port of the rendezvous is not known");
  listener.port = toRootAddress(bound.storage).port;
  return listener;
}

Result<Listener> bindToAll(uint16_t port, Purpose purpose) {
  RootAddress any;
  any.port = port;
  any.family = RootAddress::Family::kIpv6;
  Result<Listener> both = bindTo(toSocketAddress(any), 1, purpose);
  if (both.ok()) return both;
  // No IPv6 in this kernel or container; or the port is taken, which IPv4 then says as well.
  any.family = RootAddress::Family::kIpv4;
  return bindTo(toSocketAddress(any), 0, purpose);
}

}  // namespace

SocketAddress toSocketAddress(const RootAddress& address) {
  if (address.family == RootAddress::Family::kLocal) return localSocketAddress(address);
  SocketAddress out;
  if (address.family == RootAddress::Family::kIpv4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.ip.data(), 4);
    std::memcpy(&out.storage, &v4, sizeof v4);
    out.length = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    std::memcpy(&v6.sin6_addr, address.ip.data(), 16);
    std::memcpy(&out.storage, &v6, sizeof v6);
    out.length = sizeof v6;
  }
  return out;
}

RootAddress toRootAddress(const sockaddr_storage& storage) {
  RootAddress out;
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &storage, sizeof v4);
    std::memcpy(out.ip.data(), &v4.sin_addr, 4);
    out.port = ntohs(v4.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &storage, sizeof v6);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    out.family = mapped ? RootAddress::Family::kIpv4 : RootAddress::Family::kIpv6;
    std::memcpy(out.ip.data(), v6.sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    out.port = ntohs(v6.sin6_port);
  }
  return out;
}

Result<HostPort> parseHostPort(std::string_view text, const char* source) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    parsed.host = host;
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
    if (error != std::errc() || end != port.data() + port.size()) parsed.port = 0;
  }
  if (parsed.host.empty() || parsed.host.size() > 255 || parsed.port == 0)
    return makeStatus(Code::kInvalidArgument,
                      "%s=%.*s: expected host:port, like node-a:4711 or [2001:db8::1]:4711", source,
                      static_cast<int>(text.size()), text.data());
  return parsed;
}

RootAddress randomLocalAddress() {
  RootAddress address{.family = RootAddress::Family::kLocal, .port = kLocalPort};
  randomBytes(address.ip);
  return address;
}

Result<std::vector<RootAddress>> resolveHost(const HostPort& where) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int error = ::getaddrinfo(where.host.c_str(), nullptr, &hints, &list);
  // The name means the loopback everywhere (RFC 6761, 6.3), but a bare container has no /etc/hosts to say so.
  if (error != 0 && where.host == "localhost") error = ::getaddrinfo("127.0.0.1", nullptr, &hints, &list);
  if (error != 0)
    return makeStatus(Code::kSystemError, "the host \"%s\" of the rendezvous is not known here: %s",
                      where.host.c_str(), ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<RootAddress> found;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    sockaddr_storage storage{};
    std::memcpy(&storage, entry->ai_addr, std::min<size_t>(entry->ai_addrlen, sizeof storage));
    RootAddress address = toRootAddress(storage);
    address.port = where.port;
    if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
  }
  if (found.empty())
    return makeStatus(Code::kSystemError, "the host \"%s\" has no address", where.host.c_str());
  return found;
}

// The interfaces are those that data connections use.
Result<std::vector<RootAddress>> localAddresses(const InterfaceChoice& choice, uint16_t port) {
  HORING_ASSIGN(const std::vector<tcp::Interface> all, tcp::listInterfaces());
  HORING_ASSIGN(const std::vector<tcp::Interface> chosen,
                tcp::chooseInterfaces(all, choice.patterns, choice.family));
  std::vector<RootAddress> addresses;
  for (const tcp::Interface& interface : chosen)
    addresses.push_back(toRootAddress(tcp::toSockAddr({interface.address, port}).storage));
  return addresses;
}

Result<Listener> listenOn(const RootAddress* address, uint16_t port) {
  if (!address) return bindToAll(port, Purpose::kListen);
  RootAddress exact = *address;
  exact.port = port;
  return bindTo(toSocketAddress(exact), 0, Purpose::kListen);
}

Result<Listener> listenOn(const RootAddress* address, const PortRange& ports) {
  return listenWithin(ports, [&](uint16_t port) { return listenOn(address, port); });
}

Result<Listener> reservePort(const RootAddress* local, const PortRange& ports) {
  if (local) return bindTo(toSocketAddress(*local), 0, Purpose::kReserve);
  return listenWithin(ports, [](uint16_t port) { return bindToAll(port, Purpose::kReserve); });
}

RootAddress peerAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return toRootAddress(storage);
}

Result<Fd> openSocketTo(const RootAddress& address) {
  const SocketAddress target = toSocketAddress(address);
  Fd fd(::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return systemError(errno, "a socket could not be made");
  tuneControlSocket(fd.get());
  return fd;
}

Status beginConnect(const Fd& socket, const RootAddress& address) {
  const SocketAddress target = toSocketAddress(address);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.storage), target.length) != 0 &&
      errno != EINPROGRESS)
    return systemError(errno, "%s", address.toString().c_str());
  return {};
}

void tuneControlSocket(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 25'000);
  // What is lost while a cable is out is sent again soon after it is back, rather than at ever longer intervals: silence is
  // judged after a few seconds.
  set(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
}

}  // namespace horing
