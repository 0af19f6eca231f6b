#pragma once
// Addresses of hosts: of a name, and of this machine.
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "base/status.h"

namespace horing {

struct HostPort {
  std::string host;
  uint16_t port = 0;
};
// "node-a:4711", "10.0.0.2:4711", "[2001:db8::1]:4711". `source` names the variable in errors.
Result<HostPort> parseHostPort(std::string_view text, const char* source);

// Every address of a name or numeric address, in the resolver's order; may ask DNS and take seconds.
Result<std::vector<Endpoint>> resolveHost(const HostPort& where);

// Which of this machine's addresses may be given to others.
struct InterfaceChoice {
  std::string family = "any";  // "any", "ipv4", "ipv6"
  std::string patterns;        // as HORING_SOCKET_IFNAME
};
// Addresses of the chosen interfaces (transport/socket/interfaces.h), with `port`, the likeliest to be reached first.
Result<std::vector<Endpoint>> localAddresses(const InterfaceChoice& choice, uint16_t port);

// A link-local address that names no interface may be behind any of this machine's: it becomes one for each.
std::vector<Endpoint> behindEachInterface(const std::vector<Endpoint>& endpoints);

}  // namespace horing
