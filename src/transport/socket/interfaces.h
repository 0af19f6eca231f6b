#pragma once
// Which network interfaces this rank uses.
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
  bool near = true;       // to this rank, as near as any
  bool on_loopback =
      false;                // its interface is the loopback one; the address may be any, as in routed fabrics
  bool has_carrier = true;  // as far as is known
  bool private_bridge = false;  // a bridge, and the way out is not by it: of containers or virtual machines
};

// HORING_SOCKET_IFNAME, understood. A list of prefixes; '=' in front: of whole names; '^' before that: all
// but those.
struct InterfaceSelection {
  std::vector<std::string> names;  // empty: the default
  bool exact = false;
  bool except = false;

  static Result<InterfaceSelection> parse(std::string_view text);
  bool lists(std::string_view interface) const;
};

// Every address of this machine whose interface is up.
Result<std::vector<Interface>> listInterfaces();

// Those that the selection and family ("any", "ipv4", "ipv6") choose. Not chosen, unless named or where there is nothing else:
// interfaces without a carrier; addresses of the loopback interface. Link-local ones only where a named interface has
// no other. First those that are likeliest to lead somewhere: private bridges come after all others, and the further addresses of
// an interface and family after the first; IPv4 before IPv6. An error names what was asked for and all that is up.
Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all, std::string_view selection,
                                                std::string_view family);

// Says which of them are near: the nearest of those whose distance is known by their name, or by that of the RDMA device that they
// are an interface of (below `net`), and those of which nobody knows it.
void markNear(std::vector<Interface>& interfaces, const std::map<std::string, int>& distances,
              const std::string& net = "/sys/class/net");

}  // namespace horing::tcp
