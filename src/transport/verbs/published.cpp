#include "transport/verbs/published.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/endpoint.h"

namespace horing::verbs {

namespace {

constexpr uint32_t kMagic = 0x42565248;  // "HRVB"

struct WireHead {
  uint32_t magic;
  uint8_t ports;
  uint8_t queue_pairs;
  uint16_t control_bytes;
};
struct WirePort {
  uint8_t gid[16];
  uint32_t mbps;
  uint16_t lid;
  uint8_t mtu;
  uint8_t kind;
  uint8_t subnet_bits;
  uint8_t routed;
  uint8_t near;
  uint8_t needs_grh;
  char name[28];  // ends with a NUL
};
static_assert(sizeof(WireHead) == 8 && sizeof(WirePort) == 56);

constexpr int kInfinibandBits = 64;  // the first half of an address is the fabric's

int commonBits(const PublishedPort& a, const PublishedPort& b) {
  int bits = 0;
  for (size_t i = 0; i < a.gid.size(); ++i) {
    const int same = std::countl_zero(static_cast<uint8_t>(a.gid[i] ^ b.gid[i]));
    bits += same;
    if (same < 8) break;
  }
  return bits;
}

bool hasIpv4(const PublishedPort& port) {
  ibv_gid gid{};
  std::copy(port.gid.begin(), port.gid.end(), gid.raw);
  return verbs::ofIpv4(gid);
}

// The number of subnet boundaries between: 0, or 1 with routers. Nothing: unreachable. Another InfiniBand subnet is another fabric, or
// behind a router that needs more setup; RoCE v1 has no routers, and IPv4 and IPv6 do not mix.
std::optional<int> apart(const PublishedPort& a, const PublishedPort& b) {
  if (a.kind != b.kind) return {};
  if (a.infiniband()) return commonBits(a, b) >= kInfinibandBits ? std::optional(0) : std::nullopt;
  if (hasIpv4(a) != hasIpv4(b)) return {};
  if (commonBits(a, b) >= std::max(a.subnet.bits, b.subnet.bits)) return 0;
  const bool routed = a.kind == GidEntry::Kind::kRoce2 && a.subnet.routed && b.subnet.routed;
  return routed ? std::optional(1) : std::nullopt;
}

}  // namespace

PublishedPort PublishedPort::of(const Port& port) {
  PublishedPort published{.mbps = port.mbps,
                          .lid = port.lid,
                          .mtu = static_cast<uint8_t>(port.mtu),
                          .kind = port.gid.kind,
                          .subnet = port.subnet,
                          .near = port.near,
                          .needs_grh = port.needs_grh,
                          .name = port.label()};
  std::copy(std::begin(port.gid.gid.raw), std::end(port.gid.gid.raw), published.gid.begin());
  return published;
}

std::string PublishedPort::describe() const {
  const bool v4 = !infiniband() && hasIpv4(*this);
  Address address{.family = v4 ? Address::Family::kIpv4 : Address::Family::kIpv6};
  std::copy(gid.begin() + (v4 ? 12 : 0), gid.end(), address.bytes.begin());
  const int bits = infiniband() ? kInfinibandBits : v4 ? std::max(subnet.bits - 96, 0) : subnet.bits;
  return formatString("%s (%s, %s/%d)", name.c_str(), kindName(kind), address.text().c_str(), bits);
}

std::vector<std::byte> Published::encode() const {
  const WireHead head{.magic = kMagic,
                      .ports = static_cast<uint8_t>(ports.size()),
                      .queue_pairs = queue_pairs,
                      .control_bytes = static_cast<uint16_t>(control.size())};
  std::vector<std::byte> out(sizeof head + ports.size() * sizeof(WirePort) + control.size());
  std::memcpy(out.data(), &head, sizeof head);
  std::byte* at = out.data() + sizeof head;
  for (const PublishedPort& port : ports) {
    WirePort wire{.gid = {},
                  .mbps = port.mbps,
                  .lid = port.lid,
                  .mtu = port.mtu,
                  .kind = static_cast<uint8_t>(port.kind),
                  .subnet_bits = port.subnet.bits,
                  .routed = port.subnet.routed,
                  .near = port.near,
                  .needs_grh = port.needs_grh,
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
  if (head.magic != kMagic || head.ports < 1 || head.ports > kMaxPorts || head.queue_pairs < 1 ||
      head.queue_pairs > kMaxPaths ||
      bytes.size() != sizeof head + head.ports * sizeof(WirePort) + head.control_bytes)
    return broken;
  Published out;
  out.queue_pairs = head.queue_pairs;
  for (size_t i = 0; i < head.ports; ++i) {
    WirePort wire;
    std::memcpy(&wire, bytes.data() + sizeof head + i * sizeof wire, sizeof wire);
    const size_t name_bytes = ::strnlen(wire.name, sizeof wire.name);
    if (wire.kind > static_cast<uint8_t>(GidEntry::Kind::kRoce2) || wire.subnet_bits > 128 ||
        wire.routed > 1 || wire.near > 1 || wire.needs_grh > 1 || wire.mtu < IBV_MTU_256 ||
        wire.mtu > IBV_MTU_4096 || wire.mbps == 0 || name_bytes == sizeof wire.name)
      return broken;
    PublishedPort port{.mbps = wire.mbps,
                       .lid = wire.lid,
                       .mtu = wire.mtu,
                       .kind = static_cast<GidEntry::Kind>(wire.kind),
                       .subnet = {.bits = wire.subnet_bits, .routed = wire.routed == 1},
                       .near = wire.near == 1,
                       .needs_grh = wire.needs_grh == 1,
                       .name = std::string(wire.name, name_bytes)};
    std::copy(std::begin(wire.gid), std::end(wire.gid), port.gid.begin());
    out.ports.push_back(std::move(port));
  }
  const auto control = bytes.last(head.control_bytes);
  out.control.assign(control.begin(), control.end());
  return out;
}

std::vector<PortPair> pairPorts(std::span<const PublishedPort> lower, std::span<const PublishedPort> higher) {
  struct Candidate {
    std::tuple<int, int, int, bool, size_t> badness;
    PortPair pair;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < lower.size(); ++i)
    for (size_t j = 0; j < higher.size(); ++j) {
      const PublishedPort &a = lower[i], &b = higher[j];
      const std::optional<int> between = apart(a, b);
      if (!between) continue;
      const int unlike =
          *between == 0 ? 0 : -commonBits(a, b);  // inside a subnet the remaining bits are the host
      candidates.push_back(
          {{*between, !a.near + !b.near, unlike, a.name != b.name, i > j ? i - j : j - i}, {i, j}});
    }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& x, const Candidate& y) { return x.badness < y.badness; });
  std::vector<PortPair> pairs;
  std::vector<bool> used_lower(lower.size()), used_higher(higher.size());
  for (const Candidate& candidate : candidates) {
    const auto [i, j] = candidate.pair;
    if (used_lower[i] || used_higher[j]) continue;
    used_lower[i] = used_higher[j] = true;
    pairs.push_back({i, j});
  }
  return pairs;
}

}  // namespace horing::verbs
