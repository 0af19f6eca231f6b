#include "topology/hwloc_xml.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/number.h"
#include "base/printable.h"
#include "topology/cpu_mask.h"
#include "topology/graph_builder.h"
#include "topology/pci_class.h"

namespace horing {

namespace {

constexpr const char* kXmlFabric = "nvswitch";
constexpr size_t kMaxDistances = 512;  // objects per matrix

// The kind of an <osdev>. Version 2 numbers the kinds, version 3 has a bit for each.
struct OsDevice {
  bool network = false;
  bool rdma = false;
  bool computes = false;
};

class HwlocXmlReader {
 public:
  explicit HwlocXmlReader(const std::vector<XmlElement>& elements)
      : elements_(elements),
        children_(elements.size()),
        place_(elements.size(), -1),
        has_numa_(elements.size(), false) {}
  Result<MachineGraph> read();

 private:
  Status wrong(size_t index, const std::string& what) const {
    return makeStatus(Code::kInvalidArgument, "line %d: %s", elements_[index].line, what.c_str());
  }
  std::string textOf(size_t index, const char* attribute) const {
    const std::string* value = elements_[index].attribute(attribute);
    return value ? *value : "";
  }
  bool isObject(size_t index, std::string_view type) const {
    return elements_[index].name == "object" && textOf(index, "type") == type;
  }
  std::string infoOf(size_t index, std::string_view name) const;
  Result<double> number(size_t index, const char* attribute, double most) const;
  OsDevice osDevice(size_t index) const;
  int32_t homeOf(size_t index) const;

  Status checkVersion();
  void lookBelow();
  Status readObject(size_t index);
  Status readNuma(size_t index);
  Status readPci(size_t index);
  void readNic(size_t index, GraphNode nic);
  Status readLinks(size_t index);
  std::vector<std::string> wordsBelow(size_t index, std::string_view name) const;
  int32_t gpuOf(size_t index) const;

  const std::vector<XmlElement>& elements_;
  GraphBuilder builder_;
  int version_ = 2;
  int packages_ = 0;
  std::vector<std::vector<size_t>> children_;
  std::vector<int32_t> place_;         // by element: the graph node of its children
  std::vector<bool> has_numa_;         // by element: whether a descendant is a NUMA node
  std::map<size_t, int32_t> numa_of_;  // by object with its own NUMA node
  std::map<size_t, int32_t> gpus_;
  std::map<std::string, size_t> object_of_index_;  // its gp_index
};

std::string HwlocXmlReader::infoOf(size_t index, std::string_view name) const {
  for (const size_t child : children_[index])
    if (elements_[child].name == "info" && textOf(child, "name") == name)
      return printable(textOf(child, "value"), 100);
  return "";
}

Result<double> HwlocXmlReader::number(size_t index, const char* attribute, double most) const {
  const std::string text = textOf(index, attribute);
  if (text.empty()) return 0.0;
  const std::optional<double> value = numberOf<double>(text);
  if (!value || !(*value >= 0 && *value <= most))
    return wrong(index, formatString("%s=\"%s\": a number from 0 to %g is expected", attribute,
                                     printable(text, 40).c_str(), most));
  return *value;
}

OsDevice HwlocXmlReader::osDevice(size_t index) const {
  const long type = std::strtol(textOf(index, "osdev_type").c_str(), nullptr, 10);
  if (version_ == 2) return {type == 2, type == 3, type == 5};
  return {(type & 16) != 0 && (type & 32) == 0, (type & 32) != 0, (type & 8) != 0};
}

Status HwlocXmlReader::checkVersion() {
  const std::string version = textOf(0, "version");
  version_ = version.empty() ? 1 : static_cast<int>(std::strtol(version.c_str(), nullptr, 10));
  if (version_ != 2 && version_ != 3)
    return makeStatus(
        Code::kInvalidArgument,
        "version '%.20s' is not read: let `lstopo -i OLD.xml NEW.xml` of hwloc 2 or 3 write it anew",
        version.c_str());
  return {};
}

void HwlocXmlReader::lookBelow() {
  for (size_t index = 1; index < elements_.size(); ++index) {
    children_[static_cast<size_t>(elements_[index].parent)].push_back(index);
    if (elements_[index].name == "object") object_of_index_[textOf(index, "gp_index")] = index;
  }
  for (size_t index = elements_.size(); index-- > 1;)
    if (has_numa_[index] || isObject(index, "NUMANode"))
      has_numa_[static_cast<size_t>(elements_[index].parent)] = true;
}

// The NUMA node of the nearest object with exactly one; none if the nearest has several.
int32_t HwlocXmlReader::homeOf(size_t index) const {
  for (auto at = static_cast<int32_t>(index); at >= 0; at = elements_[static_cast<size_t>(at)].parent) {
    const auto object = static_cast<size_t>(at);
    if (const auto own = numa_of_.find(object); own != numa_of_.end()) return own->second;
    if (has_numa_[object]) break;
  }
  return place_[index];
}

Status HwlocXmlReader::readNuma(size_t index) {
  const auto parent = static_cast<size_t>(elements_[index].parent);
  const std::string name = textOf(index, "os_index");
  if (name.empty() || name.size() > 10 || name.find_first_not_of("0123456789") != std::string::npos)
    return wrong(index, "a NUMA node needs its number in os_index");
  // For two kinds of memory in one place the first represents both; memory without CPUs is skipped.
  const std::string cpus = textOf(index, "cpuset");
  if (numa_of_.count(parent) || cpus.find_first_not_of("0x,") == std::string::npos) return {};
  const int32_t holder = place_[parent];
  const bool in_package = builder_.node(holder).kind == NodeKind::kPackage;
  GraphNode numa{NodeKind::kNuma, holder, name,
                 in_package ? kAssumedNumaGBytesPerS : kAssumedPackageGBytesPerS};
  if (Result<std::vector<int32_t>> known = parseCpuMask(cpus); known.ok()) numa.cpus = known.take();
  numa_of_[parent] = builder_.add(std::move(numa), elements_[index].line);
  return {};
}

void HwlocXmlReader::readNic(size_t index, GraphNode nic) {
  std::vector<std::string> names;
  for (const size_t child : children_[index]) {
    if (!isObject(child, "OSDev")) continue;
    const std::string name = printable(textOf(child, "name"), kMaxNodeNameBytes);
    const OsDevice device = osDevice(child);
    if (device.rdma) names.insert(names.begin(), name);
    if (device.network) names.push_back(name);
  }
  if (names.empty() || names[0].empty()) return;
  nic.kind = NodeKind::kNic;
  nic.name = names[0];
  for (size_t i = 1; i < names.size(); ++i) nic.detail += (i > 1 ? " " : "") + names[i];
  nic.detail = nic.detail.substr(0, 100);
  builder_.add(std::move(nic), elements_[index].line);
}

// A bridge or a device. pci_type is "CLASS [VENDOR:DEVICE] ...", in hexadecimal.
Status HwlocXmlReader::readPci(size_t index) {
  const auto parent = static_cast<size_t>(elements_[index].parent);
  const bool below_device = isObject(parent, "Bridge");
  const int32_t holder = below_device ? place_[parent] : homeOf(parent);
  place_[index] = holder;
  const bool bridge = isObject(index, "Bridge");
  const std::string bus = textOf(index, "pci_busid");
  if (bridge && bus.empty()) return {};  // host bridge
  if (bus.empty() || bus.size() > 20 || bus.find_first_not_of("0123456789abcdef:.") != std::string::npos)
    return wrong(index, "a PCI device needs its address in pci_busid, like 0000:3b:00.0");
  HORING_ASSIGN(const double gbytes_per_s, number(index, "pci_link_speed", kMaxGBytesPerS));
  GraphNode node{NodeKind::kBridge, holder, bus, gbytes_per_s, 0, bus};
  if (bridge) {
    place_[index] = builder_.add(std::move(node), elements_[index].line);
    return {};
  }
  const std::string type = textOf(index, "pci_type");
  PciIdentity pci;
  pci.device_class = static_cast<unsigned>(std::strtoul(type.c_str(), nullptr, 16));
  if (type.size() > 6 && type[5] == '[')
    pci.vendor = static_cast<unsigned>(std::strtoul(type.c_str() + 6, nullptr, 16));
  std::string model = infoOf(index, "PCIDevice");
  for (const size_t child : children_[index]) {
    pci.computes |= isObject(child, "OSDev") && osDevice(child).computes;
    if (const std::string gpu_model = infoOf(child, "GPUModel"); !gpu_model.empty()) model = gpu_model;
  }
  if (!isGpu(pci)) return readNic(index, std::move(node)), Status();
  node.kind = NodeKind::kGpu;
  node.detail = model;
  gpus_[index] = builder_.add(std::move(node), elements_[index].line);
  return {};
}

Status HwlocXmlReader::readObject(size_t index) {
  const auto parent = static_cast<size_t>(elements_[index].parent);
  const std::string type = textOf(index, "type");
  place_[index] = place_[parent];
  if (elements_[parent].name != "object" && elements_[parent].name != "topology")
    return wrong(index, "an <object> must be inside another, or inside <topology>");
  if (type == "Machine") builder_.node(0).detail = infoOf(index, "DMIProductName");
  if (type == "Package") {
    if (builder_.node(place_[parent]).kind == NodeKind::kPackage)
      return wrong(index, "a package in a package");
    GraphNode package{NodeKind::kPackage, 0, std::to_string(packages_++), kAssumedPackageGBytesPerS};
    package.detail = infoOf(index, "CPUModel");
    place_[index] = builder_.add(std::move(package), elements_[index].line);
  }
  // NUMA nodes before their siblings, so that descendants find them.
  for (const size_t child : children_[index])
    if (isObject(child, "NUMANode")) HORING_TRY(readNuma(child));
  return type == "Bridge" || type == "PCIDev" ? readPci(index) : Status();
}

std::vector<std::string> HwlocXmlReader::wordsBelow(size_t index, std::string_view name) const {
  std::vector<std::string> words;
  for (const size_t child : children_[index]) {
    if (elements_[child].name != name) continue;
    const std::string& text = elements_[child].text;
    for (size_t begin = text.find_first_not_of(" \n\t"); begin != std::string::npos;) {
      const size_t end = std::min(text.find_first_of(" \n\t", begin), text.size());
      words.push_back(text.substr(begin, end - begin));
      begin = text.find_first_not_of(" \n\t", end);
    }
  }
  return words;
}

int32_t HwlocXmlReader::gpuOf(size_t index) const {
  for (auto at = static_cast<int32_t>(index); at >= 0; at = elements_[static_cast<size_t>(at)].parent)
    if (const auto found = gpus_.find(static_cast<size_t>(at)); found != gpus_.end()) return found->second;
  return -1;
}

// A matrix of bandwidths in MB/s. Its objects are numbers, after "TYPE:" where they are of several types. All switches
// of the machine are one fabric.
Status HwlocXmlReader::readLinks(size_t index) {
  const std::string name = textOf(index, "name");
  if (name != "NVLinkBandwidth" && name != "XGMIBandwidth") return {};
  const std::vector<std::string> objects = wordsBelow(index, "indexes");
  const std::vector<std::string> values = wordsBelow(index, "u64values");
  const size_t size = objects.size();
  if (size > kMaxDistances || values.size() != size * size)
    return wrong(index, formatString("%zu objects and %zu bandwidths make no matrix", size, values.size()));
  std::vector<int32_t> gpus(size, -1);
  std::vector<bool> switches(size, false);
  for (size_t i = 0; i < size; ++i) {
    const auto found = object_of_index_.find(objects[i].substr(objects[i].find(':') + 1));
    if (found == object_of_index_.end()) continue;
    gpus[i] = gpuOf(found->second);
    switches[i] = textOf(found->second, "subtype") == "NVSwitch";
  }
  std::map<int32_t, double> into_fabric;
  for (size_t row = 0; row < size; ++row)
    for (size_t column = 0; column < size; ++column) {
      const double gbytes = numberOf<double>(values[row * size + column]).value_or(0) / 1000;
      if (row == column || gpus[row] < 0 || !(gbytes > 0 && gbytes <= kMaxGBytesPerS)) continue;
      if (gpus[column] >= 0) builder_.link(gpus[row], gpus[column], gbytes);
      if (gpus[column] < 0 && switches[column]) into_fabric[gpus[row]] += gbytes;
    }
  if (into_fabric.empty()) return {};
  const int32_t fabric = builder_.add({NodeKind::kFabric, 0, kXmlFabric});
  for (const auto& [gpu, gbytes] : into_fabric) builder_.link(gpu, fabric, std::min(gbytes, kMaxGBytesPerS));
  return {};
}

Result<MachineGraph> HwlocXmlReader::read() {
  HORING_TRY(checkVersion());
  lookBelow();
  place_[0] = 0;
  for (size_t index = 1; index < elements_.size(); ++index)
    if (elements_[index].name == "object") HORING_TRY(readObject(index));
  for (size_t index = 1; index < elements_.size(); ++index)
    if (elements_[index].name.starts_with("distances2")) HORING_TRY(readLinks(index));
  return std::move(builder_).build();
}

}  // namespace

Result<MachineGraph> graphFromHwlocXml(const std::vector<XmlElement>& elements) {
  if (elements.empty() || elements[0].name != "topology")
    return makeStatus(Code::kInvalidArgument, "hwloc's XML begins with <topology>");
  return HwlocXmlReader(elements).read();
}

}  // namespace horing
