#include "transport/verbs/published.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <optional>

namespace horing::verbs {

namespace {

constexpr uint32_t kMagic = 0x42565248;  // "HRVB"

struct WireHead {
  uint32_t magic;
  uint8_t ports;
  uint8_t reserved;
  uint16_t control_bytes;
};
struct WirePort {
  uint8_t gid[16];
  uint32_t mbps;
  uint16_t lid;
  uint8_t mtu;
  uint8_t infiniband;
  char name[32];  // ends with a NUL
};
static_assert(sizeof(WireHead) == 8 && sizeof(WirePort) == 56);

// Hosts of one subnet share no fewer than this; what follows names the host, and says nothing of how near it is. InfiniBand's first
// half is the subnet's.
constexpr int kMostRoceBits = 120;
constexpr int kInfinibandBits = 64;

int commonBits(const PublishedPort& a, const PublishedPort& b) {
  int bits = 0;
  for (size_t i = 0; i < a.gid.size(); ++i) {
    const int same = std::countl_zero(static_cast<uint8_t>(a.gid[i] ^ b.gid[i]));
    bits += same;
    if (same < 8) break;
  }
  return std::min(bits, a.infiniband ? kInfinibandBits : kMostRoceBits);
}

// InfiniBand of another subnet is another fabric, or behind a router that needs more than we set up.
bool compatible(const PublishedPort& a, const PublishedPort& b) {
  if (a.infiniband != b.infiniband) return false;
  return !a.infiniband || commonBits(a, b) == kInfinibandBits;
}

}  // namespace

PublishedPort PublishedPort::of(const Port& port) {
  PublishedPort published{.mbps = port.mbps,
                          .lid = port.lid,
                          .mtu = static_cast<uint8_t>(port.mtu),
                          .infiniband = port.infiniband,
                          .name = port.label()};
  std::copy(std::begin(port.gid.gid.raw), std::end(port.gid.gid.raw), published.gid.begin());
  return published;
}

std::vector<std::byte> Published::encode() const {
  const WireHead head{.magic = kMagic,
                      .ports = static_cast<uint8_t>(ports.size()),
                      .reserved = 0,
                      .control_bytes = static_cast<uint16_t>(control.size())};
  std::vector<std::byte> out(sizeof head + ports.size() * sizeof(WirePort) + control.size());
  std::memcpy(out.data(), &head, sizeof head);
  std::byte* at = out.data() + sizeof head;
  for (const PublishedPort& port : ports) {
    WirePort wire{.gid = {},
                  .mbps = port.mbps,
                  .lid = port.lid,
                  .mtu = port.mtu,
                  .infiniband = port.infiniband,
                  .name = {}};
    std::copy(port.gid.begin(), port.gid.end(), wire.gid);
    std::snprintf(wire.name, sizeof wire.name, "%s", port.name.c_str());
    std::memcpy(at, &wire, sizeof wire);
    at += sizeof wire;
  }
  std::copy(control.begin(), control.end(), at);
  return out;
}

Result<Published> Published::decode(std::span<const std::byte> bytes) {
  const Status broken =
      makeStatus(Code::kInvalidArgument, "a peer's RDMA address of %zu bytes is broken", bytes.size());
  WireHead head;
  if (bytes.size() < sizeof head) return broken;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic || head.ports < 1 || head.ports > kMaxPorts || head.reserved != 0 ||
      bytes.size() != sizeof head + head.ports * sizeof(WirePort) + head.control_bytes)
    return broken;
  Published out;
  for (size_t i = 0; i < head.ports; ++i) {
    WirePort wire;
    std::memcpy(&wire, bytes.data() + sizeof head + i * sizeof wire, sizeof wire);
    const size_t name_bytes = ::strnlen(wire.name, sizeof wire.name);
    if (wire.infiniband > 1 || wire.mtu < IBV_MTU_256 || wire.mtu > IBV_MTU_4096 || wire.mbps == 0 ||
        name_bytes == sizeof wire.name)
      return broken;
    PublishedPort port{.mbps = wire.mbps,
                       .lid = wire.lid,
                       .mtu = wire.mtu,
                       .infiniband = wire.infiniband == 1,
                       .name = std::string(wire.name, name_bytes)};
    std::copy(std::begin(wire.gid), std::end(wire.gid), port.gid.begin());
    out.ports.push_back(std::move(port));
  }
  const auto control = bytes.last(head.control_bytes);
  out.control.assign(control.begin(), control.end());
  return out;
}

std::vector<PortPair> pairPorts(std::span<const PublishedPort> lower, std::span<const PublishedPort> higher) {
  std::vector<PortPair> pairs;
  std::vector<bool> used(higher.size());
  for (size_t i = 0; i < lower.size(); ++i) {
    std::optional<size_t> best;
    for (size_t j = 0; j < higher.size(); ++j) {
      if (used[j] || !compatible(lower[i], higher[j])) continue;
      if (!best || commonBits(lower[i], higher[j]) > commonBits(lower[i], higher[*best])) best = j;
    }
    if (!best) continue;
    used[*best] = true;
    pairs.push_back({i, *best});
  }
  return pairs;
}

}  // namespace horing::verbs
