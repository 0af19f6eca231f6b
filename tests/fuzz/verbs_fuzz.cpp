#include "base/check.h"
#include "targets.h"
#include "transport/verbs/device.h"
#include "transport/verbs/published.h"

namespace horing::fuzz {

// RDMA ports that two ranks give to each other, and the paths that both compute from them.
void verbsPublished(Bytes bytes) {
  Input in(bytes);
  const Bytes first = in.bytes(in.number<uint16_t>());
  const auto lower = verbs::Published::decode(first);
  const auto higher = verbs::Published::decode(in.all());
  if (!lower.ok()) return;
  const auto again = verbs::Published::decode(lower.value().encode());
  HORING_CHECK(again.ok() && again.value().encode() == lower.value().encode());
  const verbs::Published& other = higher.ok() ? higher.value() : lower.value();
  HORING_CHECK(!other.ports.empty() && other.ports.size() <= verbs::kMaxPorts);
  std::vector<bool> used(other.ports.size());
  const std::vector<verbs::PortPair> pairs = verbs::pairPorts(lower.value().ports, other.ports);
  HORING_CHECK_LE(pairs.size(), verbs::kMaxPaths);
  for (const verbs::PortPair& pair : pairs) {
    HORING_CHECK_LT(pair.lower, lower.value().ports.size());
    HORING_CHECK_LT(pair.higher, other.ports.size());
    HORING_CHECK(!used[pair.higher]);
    used[pair.higher] = true;
    HORING_CHECK(lower.value().ports[pair.lower].kind == other.ports[pair.higher].kind);
  }
}

// HORING_IB_HCA.
void verbsDevices(Bytes bytes) {
  const auto chosen = verbs::DeviceSelection::parse(std::string(textOf(bytes)));
  if (!chosen.ok()) {
    HORING_CHECK(chosen.status().message().find("HORING_IB_HCA") != std::string::npos);
    return;
  }
  for (const int port : {1, 2, 255}) (void)chosen.value().chooses("mlx5_0", port);
}

}  // namespace horing::fuzz
