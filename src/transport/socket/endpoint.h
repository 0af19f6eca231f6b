#pragma once
// IP addresses as values, and the few socket calls that need them.
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace horing::tcp {

struct IpAddress {
  std::array<uint8_t, 16> bytes{};  // IPv4 uses the first four
  bool v6 = false;
  bool operator==(const IpAddress&) const = default;
};

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;
};

std::string addressText(const IpAddress& address);
std::string endpointText(const Endpoint& endpoint);  // "10.0.0.2:4711", "[fd00::1]:4711"

struct SockAddr {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
SockAddr toSockAddr(const Endpoint& endpoint);
IpAddress fromSockAddr(const sockaddr& from);
// Of the other end of a connected socket, for messages.
std::string peerText(int fd);

// What every data socket gets.
struct SocketTuning {
  std::string congestion;  // "": cubic if there is one
};
// Non-blocking close-on-exec TCP socket.
Result<Fd> openSocket(bool v6);
// No delay, keep-alive, congestion control. Buffers are left to the kernel, which sizes them as it goes: that is fastest.
Status tuneSocket(int fd, const SocketTuning& tuning);

struct Listening {
  Fd fd;
  uint16_t port = 0;
};
// On every address of this machine: of both families where the kernel has IPv6, else IPv4. Port 0: one that is free.
Result<Listening> listenEverywhere(uint16_t port = 0);

}  // namespace horing::tcp
