#pragma once
// Whom a RoCE address reaches, as far as this machine's interfaces and routes say.
#include <infiniband/verbs.h>

#include <cstdint>

namespace horing::verbs {

struct Subnet {
  uint8_t bits = 64;    // leading ones of the address that all hosts of its subnet share
  bool routed = false;  // packets to other subnets leave by its interface, too
  bool operator==(const Subnet&) const = default;
};

// Of an IPv4 or IPv6 address. Where no interface has it (a container may see the adapter only): as wide as usual, and perhaps routed.
Subnet subnetOf(const ibv_gid& gid);

// ::ffff:0:0/96, as RoCE writes IPv4 addresses.
bool ofIpv4(const ibv_gid& gid);
// fe80::/10.
bool linkLocal(const ibv_gid& gid);

}  // namespace horing::verbs
