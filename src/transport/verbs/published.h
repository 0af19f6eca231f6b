#pragma once
// What a rank publishes about its RDMA ports, and how two ranks pair them without asking each other.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/verbs/device.h"
#include "transport/verbs/wire.h"

namespace horing::verbs {

inline constexpr size_t kMaxPorts = kMaxPaths;  // of one rank

// Of a port what a peer has to know.
struct PublishedPort {
  std::array<uint8_t, 16> gid{};
  uint32_t mbps = 0;
  uint16_t lid = 0;
  uint8_t mtu = 0;  // as ibv_mtu
  GidEntry::Kind kind = GidEntry::Kind::kInfiniband;
  Subnet subnet;     // of RoCE
  bool near = true;  // to the rank that says so
  bool needs_grh = false;
  std::string name;  // for messages

  bool infiniband() const { return kind == GidEntry::Kind::kInfiniband; }
  static PublishedPort of(const Port& port);
  // "mlx5_0 port 1 (RoCE v2, 10.99.0.1/24)".
  std::string describe() const;
};

struct Published {
  std::vector<PublishedPort> ports;  // 1 .. kMaxPorts
  uint8_t queue_pairs = 1;           // 1 .. kMaxPaths: as many between two ports as both ends want
  std::vector<std::byte> control;    // address of the transport that carries the words

  std::vector<std::byte> encode() const;
  // Checks everything but `control`; the bytes may be hostile.
  static Result<Published> decode(std::span<const std::byte> bytes);
};

// Ports of two ranks that are used together: indexes into each one's list.
struct PortPair {
  size_t lower;
  size_t higher;
  bool operator==(const PortPair&) const = default;
};
// The pairs of ports between the lower and the higher of two ranks; both compute the same. Each port is used once, and only with one that
// it reaches: of one InfiniBand fabric, or one version of RoCE and one subnet, or two subnets that both have routes away. First come
// those of one subnet, then those near to their ranks, then those named alike (rails), then by their places in the lists. Empty: none.
std::vector<PortPair> pairPorts(std::span<const PublishedPort> lower, std::span<const PublishedPort> higher);

}  // namespace horing::verbs
