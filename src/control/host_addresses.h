#pragma once
// The addresses of a host name, and of this machine.
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

// All addresses of a name or numeric address, in the resolver's order; may take seconds for DNS.
Result<std::vector<Endpoint>> resolveHost(const HostPort& where);

// Selects the addresses of this machine that are given to other ranks.
struct InterfaceChoice {
  std::string family = "any";  // "any", "ipv4", "ipv6"
  std::string patterns;        // as HORING_SOCKET_IFNAME
};
// Addresses of the chosen interfaces (transport/socket/interfaces.h), with `port`, the likeliest to be reached first.
Result<std::vector<Endpoint>> localAddresses(const InterfaceChoice& choice, uint16_t port);

// What leads to this machine's own addresses; false also where that is not known.
bool loopbackIsDown();
bool areAllOfThisMachine(const std::vector<Endpoint>& endpoints);

// A link-local address without an interface becomes one address for each of this machine's interfaces.
std::vector<Endpoint> behindEachInterface(const std::vector<Endpoint>& endpoints);

}  // namespace horing
