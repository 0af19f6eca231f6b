#include "comm/membership/rank_place.h"

#include <cmath>

#include "control/wire.h"
#include "topology/cpu_mask.h"
#include "topology/hwloc_graph.h"
#include "topology/topology_file.h"

namespace horing {

namespace {

constexpr uint8_t kPlaceVersion = 2;
Status dump(const Config& config) {
  Result<MachineGraph> graph =
      config.topo_file.empty() ? graphOfThisMachine() : graphFromFile(config.topo_file);
  if (!graph.ok()) return graph.status();
  return writeTopologyFile(graph.value(), config.topo_dump);
}

// KB/s: bandwidths travel, and are compared, as whole numbers.
uint64_t toWire(double gbytes_per_s) {
  return static_cast<uint64_t>(std::llround(gbytes_per_s * 1e6));
}
double fromWire(uint64_t kbytes_per_s) {
  return static_cast<double>(kbytes_per_s) / 1e6;
}

}  // namespace

Result<Fragment> findFragment(const Config& config, int rank, const std::string& gpu_bus, const Log& log) {
  if (rank == 0 && !config.topo_dump.empty()) HORING_TRY(dump(config));
  const std::vector<int32_t> cpus = cpusOfThisThread();
  const bool anywhere = static_cast<int32_t>(cpus.size()) >= onlineCpus();
  if (config.topo_file.empty() && anywhere && gpu_bus.empty()) return Fragment();
  FindOptions options;
  if (gpu_bus.empty()) options.nvml.clear();
  const Result<MachineGraph> graph =
      config.topo_file.empty() ? graphOfThisMachine(options) : graphFromFile(config.topo_file);
  if (graph.ok()) {
    if (rank == 0)
      for (const std::string& remark : graph.value().remarks())
        log.info("topology", "%s: %s", config.topo_file.c_str(), remark.c_str());
    for (const int32_t gpu : graph.value().ofKind(NodeKind::kGpu))
      if (!gpu_bus.empty() && graph.value().node(gpu).bus == gpu_bus) return fragmentOf(graph.value(), gpu);
    return fragmentOf(graph.value(), homeOf(graph.value(), cpus));
  }
  // The map only affects speed, so detection may fail; a file that the user named must be readable.
  return config.topo_file.empty() ? Result<Fragment>(Fragment()) : graph.status();
}

std::map<std::string, int> nicDistances(const Fragment& fragment, const std::string& sysfs) {
  const Result<MachineGraph> graph =
      fragment.nodes.size() > 1 ? MachineGraph::make(fragment.nodes, {}) : graphOfNics(sysfs);
  return graph.ok() ? nicDistances(graph.value(), fragment.home) : std::map<std::string, int>();
}

std::vector<std::byte> encodeFragment(const Fragment& fragment) {
  WireWriter out;
  out.number(kPlaceVersion);
  out.number(static_cast<uint8_t>(fragment.nodes.size()));
  out.number(static_cast<uint8_t>(fragment.home));
  for (size_t index = 1; index < fragment.nodes.size(); ++index) {
    const GraphNode& node = fragment.nodes[index];
    out.number(static_cast<uint8_t>(node.kind));
    out.number(static_cast<uint8_t>(node.parent));
    out.text(node.name, kMaxNodeNameBytes);
    out.text(node.bus, kMaxNodeNameBytes);
    out.number(toWire(node.gbytes_per_s));
    out.number(toWire(node.port_gbytes_per_s));
  }
  out.number(static_cast<uint8_t>(fragment.links.size()));
  for (const FragmentLink& link : fragment.links) {
    out.number(static_cast<uint8_t>(link.kind));
    out.text(link.name, kMaxNodeNameBytes);
    out.number(toWire(link.gbytes_per_s));
  }
  return out.take();
}

Result<Fragment> decodeFragment(std::span<const std::byte> bytes) {
  const auto damaged = [&] {
    return makeStatus(Code::kRemoteError, "a rank's place in its machine, of %zu bytes, is damaged",
                      bytes.size());
  };
  WireReader in(bytes);
  const auto version = in.number<uint8_t>();
  const size_t size = in.number<uint8_t>();
  Fragment fragment;
  fragment.home = in.number<uint8_t>();
  if (version != kPlaceVersion || size < 1 || size > kMaxFragmentNodes ||
      static_cast<size_t>(fragment.home) >= size)
    return damaged();
  while (fragment.nodes.size() < size && !in.failed()) {
    GraphNode node;
    const auto kind = in.number<uint8_t>();
    if (kind >= kNodeKinds) return damaged();
    node.kind = static_cast<NodeKind>(kind);
    node.parent = in.number<uint8_t>();
    node.name = in.text(kMaxNodeNameBytes);
    node.bus = in.text(kMaxNodeNameBytes);
    node.gbytes_per_s = fromWire(in.number<uint64_t>());
    node.port_gbytes_per_s = fromWire(in.number<uint64_t>());
    fragment.nodes.push_back(std::move(node));
  }
  const size_t links = in.number<uint8_t>();
  if (links > kMaxFragmentLinks) return damaged();
  while (fragment.links.size() < links && !in.failed()) {
    FragmentLink link;
    const auto kind = in.number<uint8_t>();
    link.kind = kind == static_cast<uint8_t>(NodeKind::kFabric) ? NodeKind::kFabric : NodeKind::kGpu;
    link.name = in.text(kMaxNodeNameBytes);
    link.gbytes_per_s = fromWire(in.number<uint64_t>());
    if (kind != static_cast<uint8_t>(link.kind) || link.gbytes_per_s > kMaxGBytesPerS) return damaged();
    fragment.links.push_back(std::move(link));
  }
  if (!in.complete()) return damaged();
  const Result<MachineGraph> graph = MachineGraph::make(fragment.nodes, {});
  return graph.ok() ? Result<Fragment>(std::move(fragment)) : damaged();
}

}  // namespace horing
