#pragma once
// The network interfaces that this rank uses.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "base/status.h"

namespace horing::tcp {

// One address of one interface.
struct Interface {
  std::string name;
  Address address;
  uint8_t prefix_bits = 0;
  bool loopback = false;  // the address means this machine everywhere
  bool near = true;       // to this rank: at the smallest distance
  bool on_loopback =
      false;                // its interface is the loopback one; the address may be any, as in routed fabrics
  bool has_carrier = true;  // false only if known
  bool private_bridge = false;  // a bridge without the default route: of containers or virtual machines
};

// HORING_SOCKET_IFNAME, parsed: a list of prefixes; '=' in front: of whole names; '^' before that: all except these.
struct InterfaceSelection {
  std::vector<std::string> names;  // empty: the default
  bool exact = false;
  bool except = false;

  static Result<InterfaceSelection> parse(std::string_view text);
  bool lists(std::string_view interface) const;
};

// Every address of this machine whose interface is up.
Result<std::vector<Interface>> listInterfaces();

// The addresses that the selection and family ("any", "ipv4", "ipv6") choose. Interfaces without a carrier and addresses of the
// loopback interface are chosen only if named, or if there is nothing else; link-local ones only if a named interface has no other.
// The most likely to lead somewhere come first: private bridges after all others, further addresses of an interface and family
// after the first, IPv4 before IPv6. An error names what was asked for and all interfaces that are up.
Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all, std::string_view selection,
                                                std::string_view family);

// Marks the near interfaces: those at the smallest distance, and those with unknown distance. The distance is known by the
// interface's name, or by that of its RDMA device (below `net`).
void markNear(std::vector<Interface>& interfaces, const std::map<std::string, int>& distances,
              const std::string& net = "/sys/class/net");

}  // namespace horing::tcp
