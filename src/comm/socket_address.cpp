#include "comm/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace horing {

namespace {

constexpr int kBacklog = 4096;

bool isLinkLocal(const RootAddress& address) {
  const unsigned first = static_cast<unsigned>(address.ip[0]);
  const unsigned second = static_cast<unsigned>(address.ip[1]);
  // Such an address means something only together with an interface of the host that uses it.
  return address.family == RootAddress::Family::kIpv6 ? first == 0xfe && (second & 0xc0) == 0x80
                                                      : first == 169 && second == 254;
}

bool familyChosen(const std::string& family, const RootAddress& address) {
  if (family == "any") return true;
  return (family == "ipv4") == (address.family == RootAddress::Family::kIpv4);
}

Result<Listener> listenWith(const SocketAddress& address, int dual_stack) {
  Listener listener;
  const int family = address.storage.ss_family;
  listener.fd.reset(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.fd.valid()) return systemError(errno, "a socket for the rendezvous could not be made");
  const int on = 1;
  ::setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int only_v6 = dual_stack ? 0 : 1;
  if (family == AF_INET6)
    ::setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  const std::string where = toRootAddress(address.storage).toString();
  if (::bind(listener.fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      ::listen(listener.fd.get(), kBacklog) != 0)
    return systemError(errno, "the rendezvous cannot listen on %s", where.c_str());
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (::getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0)
    return systemError(errno, "the port of the rendezvous is not known");
  listener.port = toRootAddress(bound.storage).port;
  return listener;
}

}  // namespace

SocketAddress toSocketAddress(const RootAddress& address) {
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

Result<std::vector<RootAddress>> resolveHost(const HostPort& where) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), nullptr, &hints, &list);
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

bool interfaceChosen(std::string_view patterns, std::string_view name) {
  if (patterns.empty()) patterns = "^lo,docker";
  const bool except = patterns.front() == '^';
  if (except) patterns.remove_prefix(1);
  const bool exact = !patterns.empty() && patterns.front() == '=';
  if (exact) patterns.remove_prefix(1);
  bool matched = false;
  while (!patterns.empty()) {
    const size_t comma = patterns.find(',');
    const std::string_view pattern = patterns.substr(0, comma);
    matched = matched || (exact ? name == pattern : !pattern.empty() && name.starts_with(pattern));
    patterns = comma == std::string_view::npos ? std::string_view() : patterns.substr(comma + 1);
  }
  return matched != except;
}

Result<std::vector<RootAddress>> localAddresses(const InterfaceChoice& choice, uint16_t port) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return systemError(errno, "this machine's network interfaces could not be listed");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<RootAddress> chosen;
  std::vector<RootAddress> loopback;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const bool v4 = entry->ifa_addr->sa_family == AF_INET;
    if (!v4 && entry->ifa_addr->sa_family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, entry->ifa_addr, v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    RootAddress address = toRootAddress(storage);
    address.port = port;
    if (isLinkLocal(address) || !familyChosen(choice.family, address)) continue;
    if (interfaceChosen(choice.patterns, entry->ifa_name)) {
      chosen.push_back(address);
    } else if ((entry->ifa_flags & IFF_LOOPBACK) != 0 && choice.patterns.empty()) {
      loopback.push_back(address);
    }
  }
  if (chosen.empty()) chosen = loopback;
  if (chosen.empty())
    return makeStatus(
        Code::kInvalidUsage,
        "no network interface can carry the rendezvous (HORING_SOCKET_IFNAME=%s, HORING_SOCKET_FAMILY=%s)",
        choice.patterns.c_str(), choice.family.c_str());
  // IPv4 first: it is the one that is set up everywhere, and more of them fit into a unique ID.
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const auto& a, const auto& b) { return a.family < b.family; });
  return chosen;
}

Result<Listener> listenOn(const RootAddress* address, uint16_t port) {
  if (address) {
    RootAddress exact = *address;
    exact.port = port;
    return listenWith(toSocketAddress(exact), 0);
  }
  RootAddress any;
  any.port = port;
  any.family = RootAddress::Family::kIpv6;
  Result<Listener> both = listenWith(toSocketAddress(any), 1);
  if (both.ok()) return both;
  // No IPv6 in this kernel or container; or the port is taken, which IPv4 then says as well.
  any.family = RootAddress::Family::kIpv4;
  return listenWith(toSocketAddress(any), 0);
}

Result<Fd> beginConnect(const RootAddress& address) {
  const SocketAddress target = toSocketAddress(address);
  Fd fd(::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return systemError(errno, "a socket could not be made");
  tuneControlSocket(fd.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&target.storage), target.length) != 0 &&
      errno != EINPROGRESS)
    return systemError(errno, "%s", address.toString().c_str());
  return fd;
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
}

}  // namespace horing
