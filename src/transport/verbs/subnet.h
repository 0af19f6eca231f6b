#pragma once
// The reach of a RoCE address, by this machine's interfaces and routes.
#include <infiniband/verbs.h>

#include <cstdint>

namespace horing::verbs {

struct Subnet {
  uint8_t bits = 64;    // length of the subnet prefix
  bool routed = false;  // packets to other subnets leave by its interface, too
  bool operator==(const Subnet&) const = default;
};

// The subnet of an IPv4 or IPv6 address. If no interface has the address (a container may see only the adapter): of the usual width, and
// possibly routed.
Subnet subnetOf(const ibv_gid& gid);

// ::ffff:0:0/96, as RoCE writes IPv4 addresses.
bool ofIpv4(const ibv_gid& gid);
// fe80::/10.
bool linkLocal(const ibv_gid& gid);

}  // namespace horing::verbs
