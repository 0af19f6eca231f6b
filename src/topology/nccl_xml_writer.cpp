#include <algorithm>

#include "topology/cpu_mask.h"
#include "topology/nccl_xml.h"

namespace horing {

namespace {

constexpr const char* kFabricBus = "ffff:ff:ff.0";  // an address that no device has

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

class NcclWriter {
 public:
  explicit NcclWriter(const MachineGraph& graph) : graph_(graph) {}

  std::string write() {
    text_ = "<system version=\"1\">\n";
    for (const int32_t child : graph_.childrenOf(0)) {
      if (graph_.node(child).kind != NodeKind::kPackage) continue;
      writeHolder(child);
    }
    writeHolder(0);
    return text_ + "</system>\n";
  }

 private:
  void line(int depth, const std::string& content) {
    text_ += std::string(2 * static_cast<size_t>(depth), ' ') + content + "\n";
  }

  // Writes the NUMA nodes of a package or of the machine, and the devices outside NUMA nodes.
  void writeHolder(int32_t holder) {
    const GraphNode& node = graph_.node(holder);
    std::string package;
    if (node.kind == NodeKind::kPackage) {
      package = " package=\"" + escaped(node.name) + "\"";
      if (!node.detail.empty()) package += " model=\"" + escaped(node.detail) + "\"";
    }
    std::vector<int32_t> homeless;
    for (const int32_t child : graph_.childrenOf(holder)) {
      const NodeKind kind = graph_.node(child).kind;
      if (kind == NodeKind::kNuma) {
        const std::vector<int32_t>& cpus = graph_.node(child).cpus;
        const std::string affinity = cpus.empty() ? "" : " affinity=\"" + formatCpuMask(cpus) + "\"";
        line(1, "<cpu numaid=\"" + graph_.node(child).name + "\"" + affinity + package + ">");
        for (const int32_t device : graph_.childrenOf(child)) writeDevice(device, 2);
        line(1, "</cpu>");
      } else if (kind != NodeKind::kPackage && kind != NodeKind::kFabric) {
        homeless.push_back(child);
      }
    }
    const bool bare_package = holder != 0 && graph_.childrenOf(holder).empty();
    if (homeless.empty() && !bare_package) return;
    line(1, "<cpu numaid=\"-1\"" + package + ">");
    for (const int32_t device : homeless) writeDevice(device, 2);
    line(1, "</cpu>");
  }

  // NCCL reads the speed of 16 lanes; horing reads `gbytes`.
  static std::string pciOpening(const GraphNode& node, const char* device_class) {
    return formatString(
        "<pci busid=\"%s\" class=\"%s\" link_speed=\"%.1f GT/s PCIe\" link_width=\"16\" gbytes=\"%.17g\">",
        node.bus.c_str(), device_class, node.gbytes_per_s / pcieGBytesPerS(1, 16) * 0.8 * 130 / 128,
        node.gbytes_per_s);
  }

  void writeDevice(int32_t index, int depth) {
    const GraphNode& node = graph_.node(index);
    if (node.kind == NodeKind::kNic) return writeNic(node, depth);
    const bool is_gpu = node.kind == NodeKind::kGpu;
    line(depth, pciOpening(node, is_gpu ? "0x030200" : "0x060400"));
    if (is_gpu) writeGpu(index, depth + 1);
    for (const int32_t child : graph_.childrenOf(index)) writeDevice(child, depth + 1);
    line(depth, "</pci>");
  }

  void writeNic(const GraphNode& nic, int depth) {
    const bool on_pci = !nic.bus.empty();
    if (on_pci) line(depth, pciOpening(nic, "0x020000"));
    line(depth + on_pci, "<nic>");
    line(depth + on_pci + 1, formatString("<net name=\"%s\" speed=\"%.17g\"/>", escaped(nic.name).c_str(),
                                          nic.port_gbytes_per_s * 8000));
    line(depth + on_pci, "</nic>");
    if (on_pci) line(depth, "</pci>");
  }

  void writeGpu(int32_t gpu, int depth) {
    const std::string& detail = graph_.node(gpu).detail;
    line(depth, detail.starts_with("sm ") ? "<gpu sm=\"" + detail.substr(3) + "\">" : "<gpu>");
    for (const GraphLink& link : graph_.links()) {
      if (link.a != gpu && link.b != gpu) continue;
      const GraphNode& other = graph_.node(link.a == gpu ? link.b : link.a);
      const bool fabric = other.kind == NodeKind::kFabric;
      line(depth + 1, formatString("<nvlink target=\"%s\" count=\"1\" tclass=\"%s\" gbytes=\"%.17g\"/>",
                                   fabric ? kFabricBus : other.bus.c_str(), fabric ? "0x068000" : "0x030200",
                                   link.gbytes_per_s));
    }
    if (const double gbytes = graph_.node(gpu).host_gbytes_per_s; gbytes > 0)
      line(depth + 1, formatString("<c2c bw=\"%.0f\" count=\"1\" gbytes=\"%.17g\"/>", gbytes * 1000, gbytes));
    line(depth, "</gpu>");
  }

  const MachineGraph& graph_;
  std::string text_;
};

}  // namespace

std::string toNcclXml(const MachineGraph& graph) {
  return NcclWriter(graph).write();
}

}  // namespace horing
