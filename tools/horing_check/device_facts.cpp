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
  facts["MTU of " + name] = firstLine(folder / "mtu");
  facts["speed of " + name + " in Mbit/s"] = firstLine(folder / "speed");
  facts["duplex of " + name] = firstLine(folder / "duplex");
  facts["state of " + name] = firstLine(folder / "operstate");
  facts["driver of " + name] = driverOf(folder / "device");
  facts["PCIe of " + name] = pcieOf(folder / "device");
}

void addRdmaDevice(NodeFacts& facts, const fs::path& folder) {
  const std::string name = folder.filename();
  facts["firmware of " + name] = firstLine(folder / "fw_ver");
  facts["kind of " + name] = firstLine(folder / "board_id");
  facts["driver of " + name] = driverOf(folder / "device");
  facts["PCIe of " + name] = pcieOf(folder / "device");
  for (const fs::path& port : sortedEntries(folder / "ports")) {
    const std::string of_port = " of " + name + " port " + port.filename().string();
    facts["state" + of_port] = firstLine(port / "state");
    facts["rate" + of_port] = firstLine(port / "rate");
    facts["link layer" + of_port] = firstLine(port / "link_layer");
  }
}

// GPUs are PCI devices that control a display, or compute ("3D").
void addGpus(NodeFacts& facts, const fs::path& sys) {
  std::map<std::string, int> kinds, lanes;
  std::string driver;
  for (const fs::path& device : sortedEntries(sys / "bus/pci/devices")) {
    const std::string kind = firstLine(device / "class");
    if (!kind.starts_with("0x0302") && !kind.starts_with("0x0300") && !kind.starts_with("0x1200")) continue;
    ++kinds[firstLine(device / "vendor") + ":" + firstLine(device / "device")];
    driver = driverOf(device);
    // The speed of the link changes with the load, its width does not.
    const std::string width = firstLine(device / "current_link_width");
    if (!width.empty() && width != "0") ++lanes[width];
  }
  const auto text = [](const std::map<std::string, int>& counts) {
    std::string all;
    for (const auto& [value, count] : counts)
      all += (all.empty() ? "" : ", ") + std::to_string(count) + " of " + value;
    return all;
  };
  facts["GPUs"] = text(kinds);
  facts["PCIe lanes of GPUs"] = text(lanes);
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
  facts["huge pages"] = firstLine(sys / "kernel/mm/transparent_hugepage/enabled");
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
