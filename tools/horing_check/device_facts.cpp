#include "horing_check/device_facts.h"

#include <algorithm>
#include <filesystem>

#include "base/first_line.h"
#include "base/folder_entries.h"
#include "base/number.h"
#include "base/status.h"

namespace horing::check {

namespace {

namespace fs = std::filesystem;

constexpr const char* kInterfaceErrors[] = {"rx_errors",       "tx_errors",      "rx_crc_errors",
                                            "rx_frame_errors", "rx_fifo_errors", "tx_carrier_errors"};
constexpr const char* kRdmaErrors[] = {"symbol_error",       "link_error_recovery",
                                       "link_downed",        "port_rcv_errors",
                                       "port_xmit_discards", "local_link_integrity_errors"};
constexpr const char* kRdmaHardwareErrors[] = {"packet_seq_err", "out_of_sequence", "local_ack_timeout_err"};

// "16.0 GT/s PCIe, 16 lanes"; empty if the device has no such link.
std::string pcieOf(const fs::path& device) {
  const std::string speed = firstLine(device / "current_link_speed");
  const std::string lanes = firstLine(device / "current_link_width");
  return speed.empty() || lanes.empty() || lanes == "0" ? "" : speed + ", " + lanes + " lanes";
}

std::string driverOf(const fs::path& device) {
  std::error_code none;
  const fs::path driver = fs::read_symlink(device / "driver", none).filename();
  if (driver.empty()) return "";
  const std::string version = firstLine(device / "driver" / "module" / "version");
  return driver.string() + (version.empty() ? "" : " " + version);
}

void addInterface(NodeFacts& facts, const std::string& name, const fs::path& folder) {
  facts["MTU of " + name] = factIn(folder / "mtu");
  facts["speed of " + name + " in Mbit/s"] = factIn(folder / "speed");
  facts["duplex of " + name] = factIn(folder / "duplex");
  facts["state of " + name] = factIn(folder / "operstate");
  facts["driver of " + name] = driverOf(folder / "device");
  facts["PCIe of " + name] = pcieOf(folder / "device");
}

void addRdmaDevice(NodeFacts& facts, const fs::path& folder) {
  const std::string name = folder.filename();
  facts["firmware of " + name] = factIn(folder / "fw_ver");
  facts["kind of " + name] = factIn(folder / "board_id");
  facts["driver of " + name] = driverOf(folder / "device");
  facts["PCIe of " + name] = pcieOf(folder / "device");
  for (const fs::path& port : sortedEntries(folder / "ports")) {
    const std::string of_port = " of " + name + " port " + port.filename().string();
    facts["state" + of_port] = factIn(port / "state");
    facts["rate" + of_port] = factIn(port / "rate");
    facts["link layer" + of_port] = factIn(port / "link_layer");
  }
}

// The value of most GPUs, and the others by PCI address; all by address if no value is that of most.
std::string usualAndOthers(const std::map<std::string, std::string>& of_gpus) {
  std::map<std::string, std::string> gpus_with;
  std::map<std::string, int> count;
  for (const auto& [gpu, value] : of_gpus) {
    gpus_with[value] += (gpus_with[value].empty() ? "" : ", ") + gpu;
    ++count[value];
  }
  if (count.empty()) return "";
  const auto usual = std::max_element(count.begin(), count.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool is_usual =
      std::ranges::count(count, usual->second, [](const auto& each) { return each.second; }) == 1;
  std::string text = is_usual ? usual->first : "";
  for (const auto& [value, gpus] : gpus_with) {
    if (is_usual && value == usual->first) continue;
    text.append(text.empty() ? "" : is_usual ? ", but " : ", ").append(value).append(" on ").append(gpus);
  }
  return text;
}

std::string slowdownText(uint64_t reasons) {
  std::string text;
  const auto add = [&](uint64_t bits, const char* name) {
    if ((reasons & bits) != 0) text.append(text.empty() ? "" : " and ").append(name);
  };
  add(kSlowedByHeat, "heat");
  add(kSlowedByPowerLimit, "their power limit");
  add(kSlowedByPowerBrake, "the power supply");
  // The hardware says that it slows down, and mostly why.
  if (text.empty()) add(kSlowedByHardware, "the hardware");
  return text.empty() ? "nothing" : text;
}

// GPUs are PCI devices that control a display, or compute ("3D").
void addGpus(NodeFacts& facts, const fs::path& sys) {
  std::map<std::string, int> kinds;
  std::map<std::string, std::string> lanes;
  std::string driver;
  for (const fs::path& device : sortedEntries(sys / "bus/pci/devices")) {
    const std::string kind = firstLine(device / "class");
    if (!kind.starts_with("0x0302") && !kind.starts_with("0x0300") && !kind.starts_with("0x1200")) continue;
    ++kinds[firstLine(device / "vendor") + ":" + firstLine(device / "device")];
    driver = driverOf(device);
    // The speed of the link changes with the load, its width does not.
    const std::string width = firstLine(device / "current_link_width");
    if (!width.empty() && width != "0") lanes[device.filename()] = width;
  }
  std::string gpus;
  for (const auto& [kind, count] : kinds)
    gpus += (gpus.empty() ? "" : ", ") + std::to_string(count) + " of " + kind;
  facts["GPUs"] = gpus;
  facts["PCIe lanes of GPUs"] = usualAndOthers(lanes);
  facts["driver of GPUs"] = driver;
}

void addMemory(NodeFacts& facts, const fs::path& sys) {
  int nodes = 0;
  for (const fs::path& folder : sortedEntries(sys / "devices/system/node"))
    nodes += numberOf<int>(
                 folder.filename().string().substr(std::min<size_t>(4, folder.filename().string().size())))
                 ? 1
                 : 0;
  facts["NUMA nodes"] = nodes > 0 ? std::to_string(nodes) : "";
  facts["huge pages"] = factIn(sys / "kernel/mm/transparent_hugepage/enabled");
}

void count(ErrorCounters& counters, const fs::path& file, const std::string& name) {
  if (const std::optional<uint64_t> value = numberOf<uint64_t>(firstLine(file))) counters[name] = *value;
}

}  // namespace

void addDeviceFacts(NodeFacts& facts, const std::vector<std::string>& interfaces, const std::string& sys) {
  for (const std::string& name : interfaces) addInterface(facts, name, fs::path(sys) / "class/net" / name);
  for (const fs::path& device : sortedEntries(fs::path(sys) / "class/infiniband"))
    addRdmaDevice(facts, device);
  addGpus(facts, sys);
  addMemory(facts, sys);
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
}

void addGpuStates(NodeFacts& facts, const std::vector<GpuState>& gpus) {
  const auto add = [&](const char* name, const auto& textOf) {
    std::map<std::string, std::string> of_gpus;
    bool any_tells = false;
    for (const GpuState& gpu : gpus) {
      const std::string text = textOf(gpu);
      any_tells = any_tells || !text.empty();
      of_gpus[gpu.gpu] = text.empty() ? "unknown" : text;
    }
    if (any_tells) facts[name] = usualAndOthers(of_gpus);
  };
  const auto number = [](const auto& value) { return value ? std::to_string(*value) : std::string(); };
  add("highest clock of GPUs in MHz", [&](const GpuState& gpu) { return number(gpu.sm_mhz); });
  add("highest memory clock of GPUs in MHz", [&](const GpuState& gpu) { return number(gpu.memory_mhz); });
  add("PCIe generation of GPUs", [&](const GpuState& gpu) { return number(gpu.pcie_generation); });
  add("power limit of GPUs in mW", [&](const GpuState& gpu) { return number(gpu.power_limit_mw); });
  add("ECC of GPUs", [](const GpuState& gpu) { return !gpu.ecc ? "" : *gpu.ecc ? "on" : "off"; });
  add("uncorrected ECC errors of GPUs", [&](const GpuState& gpu) { return number(gpu.ecc_errors); });
  add("GPUs are slowed down by",
      [](const GpuState& gpu) { return gpu.slowed_by ? slowdownText(*gpu.slowed_by) : std::string(); });
}

ErrorCounters readErrorCounters(const std::vector<std::string>& interfaces, const std::string& sys) {
  ErrorCounters counters;
  for (const std::string& name : interfaces) {
    const fs::path folder = fs::path(sys) / "class/net" / name;
    for (const char* const error : kInterfaceErrors)
      count(counters, folder / "statistics" / error, std::string(error) + " of " + name);
    count(counters, folder / "carrier_down_count", "carrier_down_count of " + name);
  }
  for (const fs::path& device : sortedEntries(fs::path(sys) / "class/infiniband"))
    for (const fs::path& port : sortedEntries(device / "ports")) {
      const std::string of_port = " of " + device.filename().string() + " port " + port.filename().string();
      for (const char* const error : kRdmaErrors) count(counters, port / "counters" / error, error + of_port);
      for (const char* const error : kRdmaHardwareErrors)
        count(counters, port / "hw_counters" / error, error + of_port);
    }
  return counters;
}

ErrorCounters grownSince(const ErrorCounters& before, const ErrorCounters& now) {
  ErrorCounters grown;
  for (const auto& [name, value] : now)
    if (const auto then = before.find(name); then != before.end() && value > then->second)
      grown[name] = value - then->second;
  return grown;
}

}  // namespace horing::check
