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
  bool loopback = false;
  bool near = true;  // to this rank, as near as any
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

// Every usable address of this machine: interfaces that are up, IPv4 and IPv6 without link-local ones.
Result<std::vector<Interface>> listInterfaces();

// Those that the selection and family ("any", "ipv4", "ipv6") choose, IPv4 first, at most one per interface
// and family. Loopback ones only when named, or when there is nothing else. An error names what was asked for
// and what there is.
Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all, std::string_view selection,
                                                std::string_view family);

// Says which of them are near: the nearest of those whose distance is known by their name, or by that of the RDMA device that they
// are an interface of (below `net`), and those of which nobody knows it.
void markNear(std::vector<Interface>& interfaces, const std::map<std::string, int>& distances,
              const std::string& net = "/sys/class/net");

}  // namespace horing::tcp
