#pragma once
// Root addresses and sockets: conversion, name lookup, the addresses of this machine, listening, connecting.
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/port_range.h"
#include "base/status.h"
#include "control/unique_id.h"

namespace horing {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};
SocketAddress toSocketAddress(const RootAddress& address);
// Addresses that are no RootAddress become 0.0.0.0:0. An IPv4 address mapped into IPv6 becomes IPv4.
RootAddress toRootAddress(const sockaddr_storage& storage);

struct HostPort {
  std::string host;
  uint16_t port = 0;
};
// "node-a:4711", "10.0.0.2:4711", "[2001:db8::1]:4711". `source` names the variable in errors.
Result<HostPort> parseHostPort(std::string_view text, const char* source);

// A name that nobody uses; kLocal.
RootAddress randomLocalAddress();

// Every address of a name or numeric address, in the resolver's order; may ask DNS and take seconds.
Result<std::vector<RootAddress>> resolveHost(const HostPort& where);

// Which of this machine's addresses may be given to others.
struct InterfaceChoice {
  std::string family = "any";  // "any", "ipv4", "ipv6"
  std::string patterns;        // as HORING_SOCKET_IFNAME
};
// Addresses of the chosen interfaces that are up, with `port`; loopback ones only when there is nothing else.
Result<std::vector<RootAddress>> localAddresses(const InterfaceChoice& choice, uint16_t port);

struct Listener {
  Fd fd;
  uint16_t port = 0;
};
inline constexpr int kListenBacklog = 4096;
// Listens on one address, or on all numeric ones (nullptr) with `port` (0: a free one). Non-blocking, closed on
// exec.
Result<Listener> listenOn(const RootAddress* address, uint16_t port);

// The same on a port that is free, one of these.
Result<Listener> listenOn(const RootAddress* address, const PortRange& ports);

// Takes a free port, one of these, on all numeric addresses, or a kLocal address, exclusively; who connects is refused until somebody calls
// ::listen().
Result<Listener> reservePort(const RootAddress* local, const PortRange& ports);

// Of the other end of a connected socket; 0.0.0.0:0 when it is not, or has none.
RootAddress peerAddress(int fd);

// Non-blocking, of the address' family. Errors are of this machine.
Result<Fd> openSocketTo(const RootAddress& address);
// Starts a connect; it is complete when the socket becomes writable. Errors may pass.
Status beginConnect(const Fd& socket, const RootAddress& address);
// No delay, and a dead machine at the other end is noticed within half a minute.
void tuneControlSocket(int fd);

}  // namespace horing
