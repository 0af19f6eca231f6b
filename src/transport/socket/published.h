#pragma once
// What a rank publishes about its sockets, and how two ranks pair their interfaces without asking each other.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/socket/interfaces.h"

namespace horing::tcp {

// Random name of one transport object. A connection names the transport it is for, so one for an earlier job on this port is not
// accepted.
using Instance = std::array<std::byte, 16>;

struct Published {
  uint64_t host = 0;  // the same for all ranks that share a network stack
  Instance instance{};
  uint16_t port = 0;
  int streams = 1;
  std::vector<Interface> interfaces;  // 1 .. kMaxInterfaces

  std::vector<std::byte> encode() const;
  // Checks every field; the bytes may be hostile.
  static Result<Published> decode(std::span<const std::byte> bytes);
};

inline constexpr size_t kMaxInterfaces = 24;

// Identifies this network stack: the boot of the kernel and the network namespace.
uint64_t networkStackId();

// Interfaces of two ranks that are used together: indexes into each one's list.
struct InterfacePair {
  size_t lower;
  size_t higher;
  bool operator==(const InterfacePair&) const = default;
};
// The pairs that the lower and the higher of two ranks use; both compute the same. Interfaces on one subnet are paired, each used
// once; if no two share a subnet, the k-th with the k-th of the same family (they are routed). Among those, the pairs with both
// ends near to their ranks; if there are none, pairs with one end near; else all. Empty: the two cannot reach each other.
std::vector<InterfacePair> pairInterfaces(const Published& lower, const Published& higher);

inline constexpr size_t kMaxReservePairs = 16;
// All other pairs that packets might cross, in case no path of `pairs` answers: bridges with one subnet on every machine look like a
// common network. Pairs on one subnet first.
std::vector<InterfacePair> reservePairs(const Published& lower, const Published& higher,
                                        const std::vector<InterfacePair>& pairs);

}  // namespace horing::tcp
