#pragma once
// Addresses as values: of sockets over IP, and of sockets of this machine alone.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace horing {

struct Address {
  enum class Family : uint8_t {
    // A name that only processes of this machine and network namespace can connect to; needs no interface.
    kLocal = 1,
    kIpv4 = 4,  // the first four bytes
    kIpv6 = 6,
  };
  Family family = Family::kIpv4;
  std::array<uint8_t, 16> bytes{};
  // For a link-local address: the index of the interface of this machine that leads to it. 0: none was named.
  uint32_t scope = 0;
  bool operator==(const Address&) const = default;

  bool isV6() const { return family == Family::kIpv6; }
  bool isLinkLocal() const;
  bool isLoopback() const;
  // The address without what is valid on this machine only.
  Address withoutScope() const { return {family, bytes}; }
  // "10.0.0.2" or "fd00::1"; nothing: it is something else, such as a host name.
  static std::optional<Address> parse(const std::string& text);
  // "10.0.0.2", "fd00::1", "fe80::1%eth0", "a socket of this machine".
  std::string text() const;
};

struct Endpoint {
  Address address;
  uint16_t port = 0;  // in host order; 1 for families without ports
  bool operator==(const Endpoint&) const = default;

  // "10.0.0.2:4711", "[fd00::1]:4711".
  std::string text() const;
};

// The address in the kernel's form.
struct SockAddr {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};
SockAddr toSockAddr(const Endpoint& endpoint);
// An invalid address becomes 0.0.0.0:0. An IPv4 address mapped into IPv6 becomes IPv4.
Endpoint toEndpoint(const sockaddr& from);

// The addresses of a socket's two ends; 0.0.0.0:0 if an end has none.
Endpoint ownEndpoint(int fd);
Endpoint peerEndpoint(int fd);

// An unused local address.
Endpoint randomLocalEndpoint();

}  // namespace horing
