#include "base/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "base/auth.h"
#include "base/status.h"

namespace horing {

namespace {

// Of a local address: the leading NUL keeps it out of the file system.
constexpr std::string_view kLocalPrefix{"\0horing-", 8};
constexpr uint16_t kLocalPort = 1;

template <typename T>
SockAddr asSockAddr(const T& address, size_t bytes = sizeof(T)) {
  SockAddr out;
  std::memcpy(&out.storage, &address, sizeof address);
  out.length = static_cast<socklen_t>(bytes);
  return out;
}

SockAddr localSockAddr(const Address& address) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, kLocalPrefix.data(), kLocalPrefix.size());
  std::memcpy(name.sun_path + kLocalPrefix.size(), address.bytes.data(), address.bytes.size());
  return asSockAddr(name, offsetof(sockaddr_un, sun_path) + kLocalPrefix.size() + address.bytes.size());
}

using NameOfSocket = int (*)(int, sockaddr*, socklen_t*);
Endpoint endOf(int fd, NameOfSocket name_of) {
  SockAddr end;
  end.length = sizeof end.storage;
  return name_of(fd, end.get(), &end.length) == 0 ? toEndpoint(*end.get()) : Endpoint();
}

}  // namespace

bool Address::isLinkLocal() const {
  if (isV6()) return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  return family == Family::kIpv4 && bytes[0] == 169 && bytes[1] == 254;
}

bool Address::isLoopback() const {
  if (!isV6()) return family == Family::kIpv4 && bytes[0] == 127;
  constexpr std::array<uint8_t, 16> kOne{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return bytes == kOne;
}

std::optional<Address> Address::parse(const std::string& text) {
  Address address;
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) return address;
  address.family = Family::kIpv6;
  if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::string Address::text() const {
  if (family == Family::kLocal) return "a socket of this machine";
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(isV6() ? AF_INET6 : AF_INET, bytes.data(), text, sizeof text);
  char interface[IF_NAMESIZE];
  if (scope == 0) return text;
  return formatString("%s%%%s", text, ::if_indextoname(scope, interface) ? interface : "?");
}

std::string Endpoint::text() const {
  if (address.family == Address::Family::kLocal) return address.text();
  return formatString(address.isV6() ? "[%s]:%u" : "%s:%u", address.text().c_str(), unsigned{port});
}

SockAddr toSockAddr(const Endpoint& endpoint) {
  const Address& address = endpoint.address;
  if (address.family == Address::Family::kLocal) return localSockAddr(address);
  if (address.isV6()) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    v6.sin6_scope_id = address.scope;
    std::memcpy(&v6.sin6_addr, address.bytes.data(), 16);
    return asSockAddr(v6);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(endpoint.port);
  std::memcpy(&v4.sin_addr, address.bytes.data(), 4);
  return asSockAddr(v4);
}

Endpoint toEndpoint(const sockaddr& from) {
  Endpoint out;
  if (from.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof v4);
    std::memcpy(out.address.bytes.data(), &v4.sin_addr, 4);
    out.port = ntohs(v4.sin_port);
  } else if (from.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &from, sizeof v6);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    out.address.family = mapped ? Address::Family::kIpv4 : Address::Family::kIpv6;
    std::memcpy(out.address.bytes.data(), v6.sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    if (out.address.isLinkLocal()) out.address.scope = v6.sin6_scope_id;
    out.port = ntohs(v6.sin6_port);
  }
  return out;
}

Endpoint ownEndpoint(int fd) {
  return endOf(fd, ::getsockname);
}

Endpoint peerEndpoint(int fd) {
  return endOf(fd, ::getpeername);
}

Endpoint randomLocalEndpoint() {
  Endpoint endpoint{.address = {.family = Address::Family::kLocal}, .port = kLocalPort};
  randomBytes(std::as_writable_bytes(std::span(endpoint.address.bytes)));
  return endpoint;
}

}  // namespace horing
