#include "comm/membership/rank_place.h"

#include <cmath>

#include "base/fields.h"
#include "topology/cpu_mask.h"
#include "topology/hwloc_graph.h"
#include "topology/topology_file.h"

namespace horing {

namespace {

Status dump(const Config& config) {
  Result<MachineGraph> graph =
      config.topo_file.empty() ? graphOfThisMachine() : graphFromFile(config.topo_file);
  if (!graph.ok()) return graph.status();
  return writeTopologyFile(graph.value(), config.topo_dump);
}

// Bandwidths travel, and are compared, as whole KB/s.
void describeBandwidth(auto& wire, auto& gbytes_per_s) {
  wire.numberOf(
      gbytes_per_s, [](double gbytes) { return static_cast<uint64_t>(std::llround(gbytes * 1e6)); },
      [](uint64_t kbytes) { return static_cast<double>(kbytes) / 1e6; });
}

void fields(auto& wire, Is<GraphNode> auto& node) {
  auto& [kind, parent, name, gbytes_per_s, port_gbytes_per_s, bus, left_out_cpus, left_out_detail,
         host_gbytes_per_s] = node;
  wire.numbers(kind, parent);
  wire.require(static_cast<int>(kind) < kNodeKinds);
  wire.text(name, kMaxNodeNameBytes);
  describeBandwidth(wire, gbytes_per_s);
  describeBandwidth(wire, port_gbytes_per_s);
  wire.text(bus, kMaxNodeNameBytes);
  describeBandwidth(wire, host_gbytes_per_s);
}

void fields(auto& wire, Is<FragmentLink> auto& link) {
  auto& [kind, name, gbytes_per_s] = link;
  wire.numbers(kind);
  wire.require(kind == NodeKind::kFabric || kind == NodeKind::kGpu);
  wire.text(name, kMaxNodeNameBytes);
  describeBandwidth(wire, gbytes_per_s);
  wire.require(gbytes_per_s <= kMaxGBytesPerS);
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

void fields(auto& wire, Is<Fragment> auto& fragment) {
  auto& [nodes, home, links] = fragment;
  wire.list(nodes, kMaxFragmentNodes, [&](auto& node) { fields(wire, node); });
  wire.numbers(home);
  wire.list(links, kMaxFragmentLinks, [&](auto& link) { fields(wire, link); });
  if constexpr (kReads<decltype(fragment)>)
    wire.require(!wire.failed() && MachineGraph::make(nodes, {}).ok() && home >= 0 &&
                 static_cast<size_t>(home) < nodes.size());
}
template void fields(FieldWriter&, const Fragment&);
template void fields(FieldReader&, Fragment&);

}  // namespace horing
