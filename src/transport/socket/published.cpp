#include "transport/socket/published.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/auth.h"
#include "transport/transport.h"

namespace horing::tcp {

namespace {

static_assert(std::endian::native == std::endian::little,
              "wire formats are little-endian and copied as they are");

constexpr uint32_t kMagic = 0x4b534f48;  // "HOSK"

struct WireHead {
  uint32_t magic;
  uint8_t interfaces;
  uint8_t streams;
  uint16_t port;
  uint64_t host;
  std::byte instance[16];
};
struct WireInterface {
  uint8_t address[16];
  uint8_t v6;
  uint8_t loopback;
  uint8_t prefix_bits;
  uint8_t near;
  uint8_t reserved[4];
  char name[16];  // ends with a NUL
};
static_assert(sizeof(WireHead) == 32 && sizeof(WireInterface) == 40);
static_assert(sizeof(WireHead) + kMaxInterfaces * sizeof(WireInterface) <= kMaxAddressBytes);

bool sameSubnet(const Interface& a, const Interface& b) {
  if (a.prefix_bits != b.prefix_bits || a.address.isV6() != b.address.isV6()) return false;
  for (int bit = 0; bit < a.prefix_bits; bit += 8) {
    const int rest = std::min(8, a.prefix_bits - bit);
    const int mask = 0xff << (8 - rest);
    const auto at = static_cast<size_t>(bit / 8);
    if (((a.address.bytes[at] ^ b.address.bytes[at]) & mask) != 0) return false;
  }
  return true;
}

// An address that both machines have belongs to a bridge that each has, and leads back to the own machine.
bool has(const Published& rank, const Interface& other) {
  return std::any_of(rank.interfaces.begin(), rank.interfaces.end(), [&](const Interface& own) {
    return own.address.withoutScope() == other.address.withoutScope();
  });
}

// Whether packets between the two can arrive at all, judging by the addresses.
bool mayReach(const Published& lower, const Interface& a, const Published& higher, const Interface& b) {
  const bool same_host = lower.host == higher.host;
  if (!same_host && (has(higher, a) || has(lower, b))) return false;
  if (a.address.isLinkLocal() != b.address.isLinkLocal()) return false;
  if (a.address.isV6() != b.address.isV6() || a.loopback != b.loopback) return false;
  return same_host || !a.loopback;
}

// The pairs to return.
struct PairKind {
  bool on_one_subnet;
  int far_ends;
};

std::vector<InterfacePair> pairWhere(const Published& lower, const Published& higher, const PairKind& kind) {
  std::vector<InterfacePair> pairs;
  std::set<std::string> used_lower;
  std::set<std::string> used_higher;
  for (size_t i = 0; i < lower.interfaces.size(); ++i) {
    const Interface& a = lower.interfaces[i];
    if (used_lower.contains(a.name)) continue;
    for (size_t j = 0; j < higher.interfaces.size(); ++j) {
      const Interface& b = higher.interfaces[j];
      if (used_higher.contains(b.name) || !mayReach(lower, a, higher, b)) continue;
      if (!a.near + !b.near != kind.far_ends || (kind.on_one_subnet && !sameSubnet(a, b))) continue;
      used_lower.insert(a.name);
      used_higher.insert(b.name);
      pairs.push_back({i, j});
      break;
    }
  }
  return pairs;
}

}  // namespace

std::vector<std::byte> Published::encode() const {
  const size_t count = std::min(interfaces.size(), kMaxInterfaces);
  std::vector<std::byte> out(sizeof(WireHead) + count * sizeof(WireInterface));
  WireHead head{.magic = kMagic,
                .interfaces = static_cast<uint8_t>(count),
                .streams = static_cast<uint8_t>(streams),
                .port = port,
                .host = host,
                .instance = {}};
  std::memcpy(head.instance, instance.data(), instance.size());
  std::memcpy(out.data(), &head, sizeof head);
  for (size_t i = 0; i < count; ++i) {
    WireInterface wire{};
    std::memcpy(wire.address, interfaces[i].address.bytes.data(), 16);
    wire.v6 = interfaces[i].address.isV6();
    wire.loopback = interfaces[i].loopback;
    wire.prefix_bits = interfaces[i].prefix_bits;
    wire.near = interfaces[i].near;
    std::snprintf(wire.name, sizeof wire.name, "%s", interfaces[i].name.c_str());
    std::memcpy(out.data() + sizeof head + i * sizeof wire, &wire, sizeof wire);
  }
  return out;
}

Result<Published> Published::decode(std::span<const std::byte> bytes) {
  const Status broken =
      makeStatus(Code::kInvalidArgument, "a peer's socket address of %zu bytes is broken", bytes.size());
  WireHead head;
  if (bytes.size() < sizeof head) return broken;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic || head.interfaces < 1 || head.interfaces > kMaxInterfaces || head.streams < 1 ||
      head.streams > 16 || head.port == 0 ||
      bytes.size() != sizeof head + head.interfaces * sizeof(WireInterface))
    return broken;
  Published out{
      .host = head.host, .instance = {}, .port = head.port, .streams = head.streams, .interfaces = {}};
  std::memcpy(out.instance.data(), head.instance, out.instance.size());
  for (size_t i = 0; i < head.interfaces; ++i) {
    WireInterface wire;
    std::memcpy(&wire, bytes.data() + sizeof head + i * sizeof wire, sizeof wire);
    const size_t name_bytes = ::strnlen(wire.name, sizeof wire.name);
    if (wire.v6 > 1 || wire.loopback > 1 || wire.near > 1 || wire.prefix_bits > (wire.v6 ? 128 : 32) ||
        name_bytes == sizeof wire.name)
      return broken;
    Interface one{.name = std::string(wire.name, name_bytes),
                  .prefix_bits = wire.prefix_bits,
                  .loopback = wire.loopback == 1,
                  .near = wire.near == 1};
    if (wire.v6 == 1) one.address.family = Address::Family::kIpv6;
    std::memcpy(one.address.bytes.data(), wire.address, 16);
    out.interfaces.push_back(std::move(one));
  }
  return out;
}

uint64_t networkStackId() {
  char boot[64] = "";
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    if (!std::fgets(boot, sizeof boot, file)) boot[0] = '\0';
    std::fclose(file);
  }
  struct ::stat space {};
  if (::stat("/proc/self/ns/net", &space) != 0) space = {};
  const std::string text = formatString("%s %llu %llu", boot, static_cast<unsigned long long>(space.st_dev),
                                        static_cast<unsigned long long>(space.st_ino));
  const Key digest = Key::derive(std::as_bytes(std::span(text.data(), text.size())), "network stack");
  uint64_t id;
  std::memcpy(&id, digest.bytes.data(), sizeof id);
  return id;
}

std::vector<InterfacePair> pairInterfaces(const Published& lower, const Published& higher) {
  for (const bool on_one_subnet : {true, false})
    for (const int far_ends : {0, 1, 2}) {
      std::vector<InterfacePair> pairs = pairWhere(lower, higher, {on_one_subnet, far_ends});
      if (!pairs.empty()) return pairs;
    }
  return {};
}

std::vector<InterfacePair> reservePairs(const Published& lower, const Published& higher,
                                        const std::vector<InterfacePair>& pairs) {
  std::vector<InterfacePair> reserve;
  for (const bool on_one_subnet : {true, false})
    for (size_t i = 0; i < lower.interfaces.size(); ++i)
      for (size_t j = 0; j < higher.interfaces.size(); ++j) {
        const Interface& a = lower.interfaces[i];
        const Interface& b = higher.interfaces[j];
        const InterfacePair pair{i, j};
        if (!mayReach(lower, a, higher, b) || sameSubnet(a, b) != on_one_subnet) continue;
        if (std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) reserve.push_back(pair);
      }
  if (reserve.size() > kMaxReservePairs) reserve.resize(kMaxReservePairs);
  return reserve;
}

}  // namespace horing::tcp
