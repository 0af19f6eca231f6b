#pragma once
// The data that a rank publishes about its RDMA ports, and how two ranks pair ports without further communication.
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

inline constexpr size_t kMaxPorts = kMaxPaths;  // per rank

// The data of a port for peers.
struct PublishedPort {
  std::array<uint8_t, 16> gid{};
  uint32_t mbps = 0;
  uint16_t lid = 0;
  uint8_t mtu = 0;  // as ibv_mtu
  GidEntry::Kind kind = GidEntry::Kind::kInfiniband;
  Subnet subnet;     // of RoCE
  bool near = true;  // near to the publishing rank
  bool needs_grh = false;
  std::string name;  // for messages

  bool infiniband() const { return kind == GidEntry::Kind::kInfiniband; }
  static PublishedPort of(const Port& port);
  // "mlx5_0 port 1 (RoCE v2, 10.99.0.1/24)".
  std::string describe() const;
};

struct Published {
  std::vector<PublishedPort> ports;  // 1 .. kMaxPorts
  uint8_t queue_pairs = 1;           // 1 .. kMaxPaths between two ports; the least of both ends
  std::vector<std::byte> control;    // address of the transport for control messages

  std::vector<std::byte> encode() const;
  // Checks everything except `control`; the bytes are untrusted.
  static Result<Published> decode(std::span<const std::byte> bytes);
};

// A pair of ports of two ranks: indices into their lists.
struct PortPair {
  size_t lower;
  size_t higher;
  bool operator==(const PortPair&) const = default;
};
// The pairs of ports between the lower and the higher of two ranks; both compute the same. Each port is used once, and only with a port
// that it reaches: on one InfiniBand fabric, or with one RoCE version in one subnet, or in two subnets with routes away. Preferred in this
// order: one subnet, near to their ranks, equal names (rails), positions in the lists. Empty: none.
std::vector<PortPair> pairPorts(std::span<const PublishedPort> lower, std::span<const PublishedPort> higher);

}  // namespace horing::verbs
