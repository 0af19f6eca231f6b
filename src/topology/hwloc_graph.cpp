#include "topology/hwloc_graph.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "base/folder_entries.h"
#include "base/number.h"
#include "base/printable.h"
#include "topology/cpu_mask.h"
#include "topology/graph_builder.h"
#include "topology/hwloc_handle.h"
#include "topology/machine.h"
#include "topology/pci_class.h"

namespace horing {

namespace {

constexpr const char* kHwlocFabric = "nvswitch";

const char* infoOf(hwloc_obj_t object, const char* name) {
  const char* value = object ? hwloc_obj_get_info_by_name(object, name) : nullptr;
  return value ? value : "";
}

bool hasCompute(hwloc_obj_t device) {
  for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC) return true;
  return false;
}

class HwlocWalk {
 public:
  explicit HwlocWalk(hwloc_topology_t topology)
      : topology_(topology),
        builder_(printable(infoOf(hwloc_get_root_obj(topology), "DMIProductName"), 100)) {}

  // Set for this machine; otherwise without sysfs and NVLinks.
  struct Local {
    std::string sysfs;
    std::vector<NvLinks> nvlinks;
  };
  Result<MachineGraph> walk(const Local& local);

 private:
  void addPackages();
  void addNumaNodes();
  int32_t homeOf(hwloc_const_cpuset_t cpus) const;
  void addDevices(hwloc_obj_t object, int32_t holder);
  void addBelow(hwloc_obj_t object, int32_t holder);
  void addPciDevice(hwloc_obj_t object, int32_t holder);
  void addNic(hwloc_obj_t object, GraphNode nic);
  void addLinks(const char* name);
  int32_t gpuOf(hwloc_obj_t object) const;
  void addSpeeds(const std::string& sysfs);
  void addNvLinks(const std::vector<NvLinks>& links);
  void joinFabric(const std::map<int32_t, double>& into_fabric);

  hwloc_topology_t topology_;
  GraphBuilder builder_;
  std::map<hwloc_obj_t, int32_t> packages_;
  std::map<hwloc_obj_t, int32_t> numa_nodes_;
  std::map<hwloc_obj_t, int32_t> gpus_;
  int32_t fabric_ = -1;
  std::map<std::string, int32_t> nic_of_name_;  // under every name of a NIC
};

void HwlocWalk::addPackages() {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, object));) {
    GraphNode package{NodeKind::kPackage, 0, std::to_string(object->logical_index),
                      kAssumedPackageGBytesPerS};
    package.detail = printable(infoOf(object, "CPUModel"), 100);
    packages_[object] = builder_.add(std::move(package));
  }
}

// Skips memory without CPUs, which cannot be the home of a rank or a device; for two kinds of memory in one place the first represents
// both.
void HwlocWalk::addNumaNodes() {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, object));) {
    const bool same_place = std::any_of(numa_nodes_.begin(), numa_nodes_.end(), [&](const auto& known) {
      return hwloc_bitmap_isequal(known.first->cpuset, object->cpuset);
    });
    if (hwloc_bitmap_iszero(object->cpuset) || same_place) continue;
    GraphNode numa{NodeKind::kNuma, 0, std::to_string(object->os_index), kAssumedPackageGBytesPerS};
    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0 && cpu < kMaxCpus;
         cpu = hwloc_bitmap_next(object->cpuset, cpu))
      numa.cpus.push_back(cpu);
    for (const auto& [package, index] : packages_) {
      if (!hwloc_bitmap_isincluded(object->cpuset, package->cpuset)) continue;
      numa.parent = index;
      numa.gbytes_per_s = kAssumedNumaGBytesPerS;
    }
    numa_nodes_[object] = builder_.add(std::move(numa));
  }
}

// The smallest object that contains all of these CPUs.
int32_t HwlocWalk::homeOf(hwloc_const_cpuset_t cpus) const {
  int32_t home = 0;
  int least = -1;
  for (const auto* places : {&packages_, &numa_nodes_})
    for (const auto& [object, index] : *places) {
      const int weight = hwloc_bitmap_weight(object->cpuset);
      if (!hwloc_bitmap_isincluded(cpus, object->cpuset) || (least >= 0 && weight > least)) continue;
      home = index;
      least = weight;
    }
  return home;
}

void HwlocWalk::addDevices(hwloc_obj_t object, int32_t holder) {
  if (object->type != HWLOC_OBJ_BRIDGE && object->type != HWLOC_OBJ_PCI_DEVICE) return;
  if (object->type == HWLOC_OBJ_PCI_DEVICE) return addPciDevice(object, holder);
  const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge = object->attr->bridge;
  if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
    const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = bridge.upstream.pci;
    const std::string bus = formatString("%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
    holder = builder_.add({NodeKind::kBridge, holder, bus, pci.linkspeed, 0, bus});
  }
  addBelow(object, holder);
}

void HwlocWalk::addBelow(hwloc_obj_t object, int32_t holder) {
  for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
    addDevices(child, holder);
}

void HwlocWalk::addPciDevice(hwloc_obj_t object, int32_t holder) {
  const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci = object->attr->pcidev;
  const std::string bus = formatString("%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
  GraphNode node{NodeKind::kGpu, holder, bus, pci.linkspeed, 0, bus};
  if (isGpu({pci.class_id, pci.vendor_id, hasCompute(object)})) {
    node.detail = printable(infoOf(object, "PCIDevice"), 100);
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
      if (*infoOf(child, "GPUModel")) node.detail = printable(infoOf(child, "GPUModel"), 100);
    gpus_[object] = builder_.add(std::move(node));
  } else {
    node.kind = NodeKind::kNic;
    addNic(object, std::move(node));
  }
}

// Named by its RDMA device if it has one, else by its interface. A NIC without either is unusable here, such as a virtual function for a
// guest.
void HwlocWalk::addNic(hwloc_obj_t object, GraphNode nic) {
  std::vector<std::string> names;
  for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || !child->name) continue;
    const auto type = child->attr->osdev.type;
    const std::string name = printable(child->name, kMaxNodeNameBytes);
    if (type == HWLOC_OBJ_OSDEV_OPENFABRICS) names.insert(names.begin(), name);
    if (type == HWLOC_OBJ_OSDEV_NETWORK) names.push_back(name);
  }
  if (names.empty()) return;
  nic.name = names[0];
  for (size_t i = 1; i < names.size(); ++i) nic.detail += (i > 1 ? " " : "") + names[i];
  const int32_t index = builder_.add(std::move(nic));
  for (const std::string& name : names) nic_of_name_[name] = index;
}

int32_t HwlocWalk::gpuOf(hwloc_obj_t object) const {
  for (; object; object = object->parent)
    if (const auto found = gpus_.find(object); found != gpus_.end()) return found->second;
  return -1;
}

// hwloc's matrices of bandwidths, in MB/s. All switches of the machine are one fabric.
void HwlocWalk::addLinks(const char* name) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_name(topology_, name, &count, &matrix, 0) != 0 || count == 0 || !matrix) return;
  std::map<int32_t, double> into_fabric;
  for (unsigned row = 0; row < matrix->nbobjs; ++row)
    for (unsigned column = 0; column < matrix->nbobjs; ++column) {
      const int32_t from = gpuOf(matrix->objs[row]);
      const int32_t to = gpuOf(matrix->objs[column]);
      const double gbytes_per_s = static_cast<double>(matrix->values[row * matrix->nbobjs + column]) / 1000;
      const char* subtype = matrix->objs[column]->subtype;
      if (from < 0 || row == column || gbytes_per_s <= 0 || gbytes_per_s > kMaxGBytesPerS) continue;
      if (to >= 0) builder_.link(from, to, gbytes_per_s);
      if (to < 0 && subtype && std::string_view(subtype) == "NVSwitch") into_fabric[from] += gbytes_per_s;
    }
  hwloc_distances_release(topology_, matrix);
  joinFabric(into_fabric);
}

void HwlocWalk::joinFabric(const std::map<int32_t, double>& into_fabric) {
  if (into_fabric.empty()) return;
  if (fabric_ < 0) fabric_ = builder_.add({NodeKind::kFabric, 0, kHwlocFabric});
  for (const auto& [gpu, gbytes_per_s] : into_fabric) builder_.link(gpu, fabric_, gbytes_per_s);
}

void HwlocWalk::addNvLinks(const std::vector<NvLinks>& links) {
  const auto at = [&](const std::string& bus) {
    for (const auto& [object, index] : gpus_)
      if (builder_.node(index).bus == bus) return index;
    return -1;
  };
  std::map<int32_t, double> into_fabric;
  for (const NvLinks& link : links) {
    const int32_t gpu = at(link.gpu);
    if (gpu < 0) continue;
    const int32_t target = link.target.empty() ? -1 : at(link.target);
    if (target >= 0) builder_.link(gpu, target, link.gbytes_per_s);
    if (link.target.empty()) into_fabric[gpu] += link.gbytes_per_s;
  }
  joinFabric(into_fabric);
}

// The rate of an RDMA device's active port ("400 Gb/sec (4X NDR)"); 0: none.
double rdmaGBytesPerS(const std::filesystem::path& device) {
  double fastest = 0;
  for (const auto& port : folderEntries(device / "ports")) {
    std::ifstream file(port / "rate");
    std::string line;
    std::getline(file, line);
    std::string_view rest = line;
    fastest = std::max(fastest, takeNumber<double>(rest).value_or(0) / 8);
  }
  return fastest;
}

void HwlocWalk::addSpeeds(const std::string& sysfs) {
  for (const NetworkInterface& interface : readInterfaces(sysfs + "/class/net")) {
    const double gbytes_per_s = static_cast<double>(interface.speed_mbit) / 8000;
    const auto known = nic_of_name_.find(interface.name);
    if (known != nic_of_name_.end()) {
      double& speed = builder_.node(known->second).port_gbytes_per_s;
      speed = std::max(speed, gbytes_per_s);
    } else if (interface.up && !interface.loopback && interface.name.size() <= kMaxNodeNameBytes) {
      GraphNode nic{NodeKind::kNic, 0, interface.name};
      nic.port_gbytes_per_s = gbytes_per_s;
      nic.detail = "not on a bus";
      for (const auto& [numa, index] : numa_nodes_)
        if (static_cast<int32_t>(numa->os_index) == interface.numa_node) nic.parent = index;
      builder_.add(std::move(nic));
    }
  }
  for (const auto& device : folderEntries(sysfs + "/class/infiniband")) {
    const auto known = nic_of_name_.find(device.filename().string());
    if (known == nic_of_name_.end()) continue;
    double& speed = builder_.node(known->second).port_gbytes_per_s;
    speed = std::max(speed, rdmaGBytesPerS(device));
  }
}

Result<MachineGraph> HwlocWalk::walk(const Local& local) {
  addPackages();
  addNumaNodes();
  // A device is a child of the object whose CPUs are closest to it, at whatever level.
  std::vector<hwloc_obj_t> open = {hwloc_get_root_obj(topology_)};
  while (!open.empty()) {
    const hwloc_obj_t object = open.back();
    open.pop_back();
    addBelow(object, homeOf(object->cpuset));
    for (hwloc_obj_t child = object->last_child; child; child = child->prev_sibling) open.push_back(child);
  }
  addLinks("NVLinkBandwidth");
  addLinks("XGMIBandwidth");
  addNvLinks(local.nvlinks);
  if (!local.sysfs.empty()) addSpeeds(local.sysfs);
  return std::move(builder_).build();
}

// Loads without caches, which are not needed, and with bridges and devices.
Result<MachineGraph> load(hwloc_topology_t topology, const HwlocWalk::Local& local) {
  hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(topology) != 0) return systemError(errno, "hwloc could not read the topology");
  return HwlocWalk(topology).walk(local);
}

// Limits the size: hwloc's time grows with the square of the number of objects.
Status checkSynthetic(const std::string& description) {
  constexpr uint64_t kMostObjects = 4096;  // of all levels: a second or less
  const auto wrong = [&](const char* what) {
    return makeStatus(Code::kInvalidArgument,
                      "\"%s\" %s; expected are levels with counts, like \"pack:2 numa:2 core:8 pu:2\"",
                      printable(description, 80).c_str(), what);
  };
  uint64_t across = 1, objects = 0;
  size_t at = 0;
  while (at < description.size()) {
    const size_t end = std::min(description.find(' ', at), description.size());
    const std::string level = description.substr(at, end - at);
    at = end + 1;
    const size_t colon = level.find(':');
    if (level.empty()) continue;
    const auto isLetter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    // hwloc takes a level that begins with a digit for a separate count.
    const bool plain = colon != std::string::npos && isLetter(level[0]) && colon + 1 < level.size() &&
                       std::all_of(level.begin(), level.begin() + static_cast<long>(colon),
                                   [&](char c) { return isLetter(c) || isDigit(c); }) &&
                       std::all_of(level.begin() + static_cast<long>(colon) + 1, level.end(), isDigit);
    if (!plain) return wrong("is something else");
    across *= std::min<uint64_t>(std::strtoull(level.c_str() + colon + 1, nullptr, 10), kMostObjects + 1);
    objects += across;
    if (across == 0) return wrong("asks for no objects");
    if (objects > kMostObjects) return wrong("asks for more than 4,096 objects");
  }
  return {};
}

// hwloc calls libudev, which holds a process-wide lock at first use. A fork takes this mutex first: otherwise the child could inherit a
// lock of a thread that does not exist there.
std::mutex& hwlocMutex() {
  static std::mutex mutex;
  static const int guarded =
      ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
  (void)guarded;  // best effort: fails only if memory has run out
  return mutex;
}

}  // namespace

Result<MachineGraph> graphOfThisMachine(const FindOptions& options) {
  HwlocWalk::Local local{options.sysfs, {}};
  // Without a driver there is no NVLink.
  if (!options.nvml.empty())
    if (Result<std::vector<NvLinks>> links = readNvLinks(options.nvml); links.ok())
      local.nvlinks = links.take();
  const std::lock_guard lock(hwlocMutex());
  HORING_ASSIGN(const HwlocOwner topology, makeHwloc());
  return load(topology.get(), local);
}

Result<MachineGraph> graphOfNics(const std::string& sysfs) {
  GraphBuilder builder;
  std::set<std::string> names;
  const auto add = [&](const std::string& name, double gbytes_per_s) {
    if (name.size() > kMaxNodeNameBytes || printable(name, kMaxNodeNameBytes) != name ||
        names.size() == kMaxGraphNodes - 1 || !names.insert(name).second)
      return;
    GraphNode nic{NodeKind::kNic, 0, name};
    nic.port_gbytes_per_s = gbytes_per_s;
    builder.add(std::move(nic));
  };
  for (const NetworkInterface& interface : readInterfaces(sysfs + "/class/net"))
    if (interface.up && !interface.loopback)
      add(interface.name, static_cast<double>(interface.speed_mbit) / 8000);
  for (const auto& device : folderEntries(sysfs + "/class/infiniband"))
    add(device.filename().string(), rdmaGBytesPerS(device));
  return std::move(builder).build();
}

Result<MachineGraph> graphFromSynthetic(const std::string& description) {
  HORING_TRY(checkSynthetic(description));
  HORING_ASSIGN(const HwlocOwner topology, makeHwloc());
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0)
    return makeStatus(Code::kInvalidArgument,
                      "\"%.200s\" is not an hwloc synthetic topology, like \"pack:2 numa:2 core:8 pu:2\"",
                      description.c_str());
  return load(topology.get(), {});
}

}  // namespace horing
