#include "topology/nccl_xml.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>

#include "base/number.h"
#include "base/printable.h"
#include "topology/cpu_mask.h"
#include "topology/graph_builder.h"

namespace horing {

namespace {

constexpr double kMaxGigaTransfers = 1024;
constexpr int kMaxLinkCount = 1024;  // lanes of a PCI link, or links between two GPUs
constexpr const char* kFabricName = "nvswitch";

// An NVLink or xGMI link of one GPU; its other end may not have been read yet.
struct PendingLink {
  int32_t gpu;
  std::string target;
  bool to_switch;
  double gbytes_per_s;
};

// The direct children of a <pci>, including nets in its <nic>s.
struct Inside {
  bool pci = false;
  bool gpu = false;
  int nets = 0;
};

// The bandwidth of one NVLink, one way: generation 1: 20, 2 to 4: 25, 5: 50; slower for small Ampere (sm 86).
double nvlinkGBytesPerS(double sm) {
  if (sm == 86) return 14.0625;
  return sm > 0 && sm < 70 ? 20 : sm < 100 ? 25 : 50;
}

// The bandwidth of one Infinity Fabric link, one way, by the architecture ("gfx90a:sramecc+", in old files "906"): MI50 and MI100: 46,
// MI200: 50, MI300: 64, MI350: 76.8.
double xgmiGBytesPerS(const std::string& architecture) {
  const auto is = [&](const char* part) { return architecture.find(part) != std::string::npos; };
  if (is("906") || is("908")) return 46;
  if (is("950")) return 76.8;
  return is("94") ? 64 : 50;
}

bool knowsXgmi(const std::string& architecture) {
  constexpr std::string_view kKnown[] = {"906", "908", "90a", "910", "94", "950"};
  return std::any_of(std::begin(kKnown), std::end(kKnown),
                     [&](std::string_view part) { return architecture.find(part) != std::string::npos; });
}

class NcclReader {
 public:
  explicit NcclReader(const std::vector<XmlElement>& elements) : elements_(elements) {}
  Result<MachineGraph> read();

 private:
  Status wrong(const XmlElement& element, const std::string& what) const {
    return makeStatus(Code::kInvalidArgument, "line %d: <%s> %s", element.line,
                      printable(element.name, 40).c_str(), what.c_str());
  }
  // Absent, empty, and the kernel's "Unknown ..." give `fallback`.
  Result<double> number(const XmlElement& element, const char* name, double fallback, double most) const;
  Result<std::string> busId(const XmlElement& element, const char* name) const;
  Result<double> pciGBytesPerS(const XmlElement& element);

  void lookBelow();
  Status readElement(size_t index);
  bool isOfAnotherHost(const XmlElement& cpu);
  Status readCpu(size_t index);
  Status readPci(size_t index);
  std::string bridgeName(const std::string& bus);
  Status readGpu(size_t index);
  Result<bool> repeatsKnownGpu(size_t index, int32_t node);
  Status readNet(size_t index);
  bool joinsKnownNic(size_t index, const std::string& name, double port_gbytes_per_s);
  Status readLink(size_t index);
  Status readHostLink(size_t index);
  void resolveLinks();
  void remarkOnNumbers();
  void remarkOnHosts();
  void remarkOnWidths();
  void remarkOnLinks();
  int32_t packageOf(const XmlElement& cpu, const std::string& name);

  const std::vector<XmlElement>& elements_;
  GraphBuilder builder_;
  std::vector<Inside> inside_;
  std::vector<int32_t> node_of_;  // by element; -1: skipped with its subtree
  std::map<std::string, int32_t> gpu_of_bus_;
  std::map<int32_t, size_t> gpu_elements_;  // by node: the <gpu> that was read first
  std::map<std::string, int> bridges_of_bus_;
  std::map<std::string, size_t> nets_;    // by name: the element that was read first
  std::vector<std::string> gpu_numbers_;  // `dev`, in the order of the file
  std::map<std::string, int32_t> packages_;
  std::vector<std::string> hosts_;         // host_hash, in the order of the file; the first is read
  std::map<int32_t, double> link_gbytes_;  // of one NVLink of a GPU
  std::vector<PendingLink> pending_;
  int assumed_widths_ = 0, assumed_width_line_ = 0;
  std::set<int32_t> unknown_gpus_;  // whose generation, and so the rate of a link, is unknown
  int assumed_links_ = 0, assumed_link_line_ = 0;
};

Result<double> NcclReader::number(const XmlElement& element, const char* name, double fallback,
                                  double most) const {
  const std::string* text = element.attribute(name);
  if (!text || text->empty() || text->starts_with("Unknown")) return fallback;
  std::string_view rest = *text;
  const std::optional<double> value = takeNumber<double>(rest);
  // "16.0 GT/s PCIe" is a number with a unit.
  const bool ends = rest.empty() || rest.front() == ' ';
  if (!value || !ends || !(*value >= 0 && *value <= most))
    return wrong(element, formatString("has %s=\"%s\": a number from 0 to %g is expected", name,
                                       printable(*text, 40).c_str(), most));
  return *value;
}

Result<std::string> NcclReader::busId(const XmlElement& element, const char* name) const {
  const std::string* text = element.attribute(name);
  const bool good = text && !text->empty() && text->size() <= 20 &&
                    text->find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
  if (!good) return wrong(element, std::string("needs a PCI address in ") + name + ", like 0000:3b:00.0");
  std::string lower = *text;
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'F') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

Result<double> NcclReader::pciGBytesPerS(const XmlElement& element) {
  HORING_ASSIGN(const double stated, number(element, "gbytes", -1, kMaxGBytesPerS));
  HORING_ASSIGN(const double speed, number(element, "link_speed", 0, kMaxGigaTransfers));
  HORING_ASSIGN(const double width, number(element, "link_width", 0, kMaxLinkCount));
  if (stated >= 0) return stated;
  // Virtual machines report a width of 0: 16 is the usual one.
  if (width == 0 && speed > 0 && ++assumed_widths_ == 1) assumed_width_line_ = element.line;
  return pcieGBytesPerS(speed, width == 0 ? 16 : static_cast<int>(width));
}

void NcclReader::lookBelow() {
  inside_.resize(elements_.size());
  for (size_t i = 1; i < elements_.size(); ++i) {
    const auto parent = static_cast<size_t>(elements_[i].parent);
    inside_[parent].pci |= elements_[i].name == "pci";
    inside_[parent].gpu |= elements_[i].name == "gpu";
    if (elements_[i].name == "net" && elements_[parent].parent >= 0)
      ++inside_[static_cast<size_t>(elements_[parent].parent)].nets;
  }
}

int32_t NcclReader::packageOf(const XmlElement& cpu, const std::string& name) {
  const auto [found, is_new] = packages_.try_emplace(name, 0);
  if (is_new) {
    GraphNode package{NodeKind::kPackage, 0, name, kAssumedPackageGBytesPerS};
    if (const std::string* model = cpu.attribute("model")) package.detail = *model;
    found->second = builder_.add(std::move(package), cpu.line);
  }
  return found->second;
}

// What NCCL dumps on machines that share NVLink holds the <cpu> of every host, with the same NUMA nodes and PCI addresses.
bool NcclReader::isOfAnotherHost(const XmlElement& cpu) {
  const std::string* hash = cpu.attribute("host_hash");
  const std::string host = hash ? *hash : "";
  if (std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end()) hosts_.push_back(host);
  return host != hosts_[0];
}

Status NcclReader::readCpu(size_t index) {
  const XmlElement& cpu = elements_[index];
  if (isOfAnotherHost(cpu)) return {};
  const std::string* id = cpu.attribute("numaid");
  char* end = nullptr;
  errno = 0;
  const long numa = id ? std::strtol(id->c_str(), &end, 0) : -1;
  if (!id || id->empty() || *end != '\0' || errno != 0 || numa < -1 || numa > 1 << 20)
    return wrong(cpu, "needs the number of a NUMA node in numaid");
  const std::string* package = cpu.attribute("package");
  const int32_t holder = package ? packageOf(cpu, *package) : 0;
  // As the kernel reports devices with an unknown NUMA node.
  node_of_[index] = holder;
  if (numa == -1) return {};
  GraphNode node{NodeKind::kNuma, holder, std::to_string(numa),
                 package ? kAssumedNumaGBytesPerS : kAssumedPackageGBytesPerS};
  if (const std::string* affinity = cpu.attribute("affinity")) {
    Result<std::vector<int32_t>> cpus = parseCpuMask(*affinity);
    // Some files have other forms, such as "0-63", which NCCL ignores.
    if (cpus.ok()) node.cpus = cpus.take();
  }
  node_of_[index] = builder_.add(std::move(node), cpu.line);
  return {};
}

// Some files give several switches one address, which NCCL accepts.
std::string NcclReader::bridgeName(const std::string& bus) {
  const int before = bridges_of_bus_[bus]++;
  return before == 0 ? bus : formatString("%s#%d", bus.c_str(), before + 1);
}

Status NcclReader::readPci(size_t index) {
  const XmlElement& pci = elements_[index];
  HORING_ASSIGN(std::string bus, busId(pci, "busid"));
  HORING_ASSIGN(const double gbytes_per_s, pciGBytesPerS(pci));
  const std::string* class_text = pci.attribute("class");
  const std::string device_class = class_text ? class_text->substr(0, 6) : "";
  GraphNode node{NodeKind::kBridge, node_of_[static_cast<size_t>(pci.parent)], bus, gbytes_per_s, 0, bus};
  const int nets = inside_[index].nets;
  const bool leaf = !inside_[index].pci;
  const bool is_gpu = inside_[index].gpu || (leaf && nets == 0 && device_class.starts_with("0x03"));
  if (is_gpu) node.kind = NodeKind::kGpu;
  if (leaf && nets <= 1 && (nets == 1 || device_class.starts_with("0x02"))) node.kind = NodeKind::kNic;
  if (is_gpu && !leaf) return wrong(pci, "holds a GPU and other devices at once");
  if (node.kind == NodeKind::kBridge) node.name = bridgeName(bus);
  if (leaf && node.kind == NodeKind::kBridge && device_class.empty() && nets == 0)
    builder_.remark(
        formatString("line %d: the kind of device %s is unknown (no class, <gpu> or <nic>): it is left out",
                     pci.line, bus.c_str()));
  const int32_t made = node_of_[index] = builder_.add(std::move(node), pci.line);
  if (is_gpu && !gpu_of_bus_.emplace(bus, made).second) return wrong(pci, "has the address of another GPU");
  return {};
}

// Ranks that share a GPU, and parts of one (mlopart), have a <gpu> each, all with the device's links: horing counts the device once.
Result<bool> NcclReader::repeatsKnownGpu(size_t index, int32_t node) {
  const auto [known, is_new] = gpu_elements_.try_emplace(node, index);
  if (is_new) return false;
  const XmlElement &gpu = elements_[index], &first = elements_[known->second];
  const auto number = [](const XmlElement& element) {
    const std::string* dev = element.attribute("dev");
    return dev ? *dev : "";
  };
  if (number(gpu) != number(first))
    return wrong(gpu, formatString("has dev=\"%s\": the GPU of this <pci>, line %d, has \"%s\"",
                                   printable(number(gpu), 8).c_str(), first.line,
                                   printable(number(first), 8).c_str()));
  builder_.remark(formatString("line %d: <gpu> repeats the one of line %d, of %s: they are one GPU", gpu.line,
                               first.line, builder_.node(node).bus.c_str()));
  return true;
}

Status NcclReader::readGpu(size_t index) {
  const XmlElement& gpu = elements_[index];
  const int32_t node = node_of_[static_cast<size_t>(gpu.parent)];
  if (builder_.node(node).kind != NodeKind::kGpu) return wrong(gpu, "must stand in a <pci>");
  HORING_ASSIGN(const bool is_known, repeatsKnownGpu(index, node));
  if (is_known) return {};
  node_of_[index] = node;
  HORING_ASSIGN(const double sm, number(gpu, "sm", 0, 1e6));
  const std::string* amd = gpu.attribute("gcn");
  if (const std::string* number = gpu.attribute("dev")) gpu_numbers_.push_back(*number);
  if (amd ? !knowsXgmi(*amd) : sm == 0) unknown_gpus_.insert(node);
  link_gbytes_[node] = amd ? xgmiGBytesPerS(*amd) : nvlinkGBytesPerS(sm);
  if (!amd && sm > 0) builder_.node(node).detail = formatString("sm %.0f", sm);
  return {};
}

// Merges repeated entries of a device. A second port adds to its bandwidth. NCCL lists an interface that is not a PCI device (tunl0, or
// eth0 of a virtual machine) at every NUMA node: it has no place.
bool NcclReader::joinsKnownNic(size_t index, const std::string& name, double port_gbytes_per_s) {
  const auto [known, is_new] = nets_.try_emplace(name, index);
  if (is_new) return false;
  const size_t first = known->second;
  const auto homeOf = [this](size_t net) {
    return elements_[static_cast<size_t>(elements_[net].parent)].parent;
  };
  const bool is_same_device = homeOf(index) == homeOf(first);
  const auto isVirtual = [&](size_t net) {
    return elements_[static_cast<size_t>(homeOf(net))].name == "cpu";
  };
  GraphNode& nic = builder_.node(node_of_[first]);
  if (isVirtual(first) && isVirtual(index)) {
    if (!is_same_device) nic.parent = 0;
    nic.port_gbytes_per_s = std::max(nic.port_gbytes_per_s, port_gbytes_per_s);
    return true;
  }
  if (is_same_device) nic.port_gbytes_per_s += port_gbytes_per_s;
  return is_same_device;
}

Status NcclReader::readNet(size_t index) {
  const XmlElement& net = elements_[index];
  const int32_t holder = node_of_[static_cast<size_t>(net.parent)];
  const std::string* name = net.attribute("name");
  if (!name || name->empty()) return wrong(net, "needs a name");
  const std::string* const speed = net.attribute("speed");
  const bool is_known = !speed || *speed != "-1";  // NCCL's value for an unknown speed
  HORING_ASSIGN(const double mbit, is_known ? number(net, "speed", 0, kMaxGBytesPerS * 8000) : 0.0);
  if (joinsKnownNic(index, *name, mbit / 8000)) return {};
  if (builder_.node(holder).kind == NodeKind::kNic) {
    builder_.node(holder).name = *name;
    node_of_[index] = holder;
  } else {
    node_of_[index] = builder_.add({NodeKind::kNic, holder, *name}, net.line);
  }
  builder_.node(node_of_[index]).port_gbytes_per_s = mbit / 8000;
  return {};
}

Status NcclReader::readLink(size_t index) {
  const XmlElement& link = elements_[index];
  const int32_t gpu = node_of_[static_cast<size_t>(link.parent)];
  HORING_ASSIGN(std::string target, busId(link, "target"));
  HORING_ASSIGN(const double count, number(link, "count", 1, kMaxLinkCount));
  HORING_ASSIGN(const double gbytes, number(link, "gbytes", count * link_gbytes_[gpu], kMaxGBytesPerS));
  if (!link.attribute("gbytes") && unknown_gpus_.contains(gpu) && ++assumed_links_ == 1)
    assumed_link_line_ = link.line;
  const std::string* target_class = link.attribute("tclass");
  pending_.push_back({gpu, std::move(target), target_class && *target_class == "0x068000", gbytes});
  return {};
}

// A link to the processor: MB/s of one, one way, and their count. A GPU beside it has a PCIe link for control only (one lane on GB200).
Status NcclReader::readHostLink(size_t index) {
  const XmlElement& c2c = elements_[index];
  HORING_ASSIGN(const double count, number(c2c, "count", 1, kMaxLinkCount));
  HORING_ASSIGN(const double mbytes, number(c2c, "bw", 0, kMaxGBytesPerS * 1000));
  HORING_ASSIGN(const double gbytes, number(c2c, "gbytes", count * mbytes / 1000, kMaxGBytesPerS));
  GraphNode& gpu = builder_.node(node_of_[static_cast<size_t>(c2c.parent)]);
  if (gbytes > gpu.gbytes_per_s)
    gpu.host_gbytes_per_s = gbytes;
  else
    builder_.remark(
        formatString("line %d: <c2c> of GPU %s is left out: count and bw (MB/s) make %g GB/s, its "
                     "PCIe link %g",
                     c2c.line, gpu.bus.c_str(), gbytes, gpu.gbytes_per_s));
  return {};
}

Status NcclReader::readElement(size_t index) {
  const XmlElement& element = elements_[index];
  const XmlElement& parent = elements_[static_cast<size_t>(element.parent)];
  const auto in = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), parent.name) != names.end();
  };
  if (node_of_[static_cast<size_t>(element.parent)] < 0) return {};
  if (element.name == "cpu")
    return in({"system"}) ? readCpu(index) : wrong(element, "must stand in <system>");
  if (element.name == "pci")
    return in({"cpu", "pci"}) ? readPci(index) : wrong(element, "must stand in <cpu> or <pci>");
  if (element.name == "gpu") return in({"pci"}) ? readGpu(index) : wrong(element, "must stand in <pci>");
  if (element.name == "nic") {
    node_of_[index] = node_of_[static_cast<size_t>(element.parent)];
    return in({"cpu", "pci"}) ? Status() : wrong(element, "must stand in <cpu> or <pci>");
  }
  if (element.name == "net") return in({"nic"}) ? readNet(index) : wrong(element, "must stand in <nic>");
  if (element.name == "nvlink" || element.name == "xgmi")
    return in({"gpu"}) ? readLink(index) : wrong(element, "must stand in <gpu>");
  if (element.name == "c2c") return in({"gpu"}) ? readHostLink(index) : wrong(element, "must stand in <gpu>");
  return {};
}

// All switches of a machine are one fabric, with a GPU's total bandwidth to them.
void NcclReader::resolveLinks() {
  std::map<std::pair<int32_t, int32_t>, double> direct;
  std::map<int32_t, double> into_fabric;
  for (const PendingLink& link : pending_) {
    const auto target = gpu_of_bus_.find(link.target);
    if (target != gpu_of_bus_.end()) {
      direct[{link.gpu, target->second}] += link.gbytes_per_s;
    } else if (link.to_switch) {
      into_fabric[link.gpu] += link.gbytes_per_s;
    }
  }
  for (const auto& [ends, gbytes] : direct) builder_.link(ends.first, ends.second, gbytes);
  if (into_fabric.empty()) return;
  const int32_t fabric = builder_.add({NodeKind::kFabric, 0, kFabricName});
  for (const auto& [gpu, gbytes] : into_fabric) builder_.link(gpu, fabric, gbytes);
}

// Programs number GPUs as the driver does. horing numbers them by their place, which differs on AMD machines.
void NcclReader::remarkOnNumbers() {
  size_t in_order = 0;
  while (in_order < gpu_numbers_.size() && gpu_numbers_[in_order] == std::to_string(in_order)) ++in_order;
  if (in_order == gpu_numbers_.size()) return;
  std::string list;
  for (const std::string& number : gpu_numbers_) list += (list.empty() ? "" : ", ") + printable(number, 8);
  builder_.remark(
      formatString("GPUs are numbered by their place in the machine, 0 to %zu; the file's own numbers (dev) "
                   "of these are %s",
                   gpu_numbers_.size() - 1, printable(list, 200).c_str()));
}

void NcclReader::remarkOnHosts() {
  if (hosts_.size() < 2) return;
  builder_.remark(
      formatString("the file describes %zu hosts: the machine is the first, with host_hash=\"%s\"; the "
                   "others are left out",
                   hosts_.size(), printable(hosts_[0], 40).c_str()));
}

void NcclReader::remarkOnWidths() {
  if (assumed_widths_ > 0)
    builder_.remark(formatString("line %d: no link_width, or 0, of %d PCI device%s: 16 lanes are assumed",
                                 assumed_width_line_, assumed_widths_, assumed_widths_ == 1 ? "" : "s"));
}

void NcclReader::remarkOnLinks() {
  if (assumed_links_ > 0)
    builder_.remark(
        formatString("line %d: the generation of the GPU (sm, or gcn) is unknown for %d <nvlink> or <xgmi>: "
                     "%g GB/s for each link is assumed",
                     assumed_link_line_, assumed_links_, link_gbytes_[*unknown_gpus_.begin()]));
}

Result<MachineGraph> NcclReader::read() {
  node_of_.assign(elements_.size(), -1);
  node_of_[0] = 0;
  lookBelow();
  for (size_t index = 1; index < elements_.size(); ++index) HORING_TRY(readElement(index));
  resolveLinks();
  remarkOnHosts();
  remarkOnWidths();
  remarkOnLinks();
  remarkOnNumbers();
  return std::move(builder_).build();
}

}  // namespace

Result<MachineGraph> graphFromNcclXml(const std::vector<XmlElement>& elements) {
  if (elements.empty() || elements[0].name != "system")
    return makeStatus(Code::kInvalidArgument, "NCCL's topology XML begins with <system>");
  if (elements.size() > 4 * kMaxGraphNodes)
    return makeStatus(Code::kInvalidArgument, "%zu elements describe no machine: at most %zu are read",
                      elements.size(), 4 * kMaxGraphNodes);
  return NcclReader(elements).read();
}

}  // namespace horing
