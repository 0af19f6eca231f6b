#include "horing_check/facts.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/config.h"
#include "base/fd.h"
#include "base/first_line.h"
#include "base/printable.h"
#include "base/version.h"
#include "horing/horing.h"
#include "horing_check/device_facts.h"
#include "horing_check/gpu_adapters.h"
#include "topology/hwloc_graph.h"
#include "transport/socket/interfaces.h"

namespace horing::check {

namespace {

constexpr size_t kMostLetters = 100, kMostLettersOfValue = 400;  // a value may name many GPUs

std::string lineOf(const std::string& path) {
  std::string line = factIn(path);
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

// Of the first processor.
std::string cpuInfo(const char* field) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field)) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "";
}

std::string processorCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
  return std::to_string(CPU_COUNT(&set));
}

// Rounded, since firmware and kernel reserve some memory.
std::string memoryText() {
  const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double gib = bytes / (1 << 30);
  return formatString(gib < 16 ? "%.1f GiB" : "%.0f GiB", gib);
}

std::string limitText(decltype(RLIMIT_NOFILE) what) {
  rlimit limit{};
  if (getrlimit(what, &limit) != 0) return "";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

}  // namespace

std::string factIn(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() && (errno == EACCES || errno == EPERM)) return kNoRights;
  return firstLine(path);
}

std::vector<std::string> interfacesInUse() {
  std::vector<std::string> names;
  const Result<Config> config = Config::fromEnvironment();
  const Result<std::vector<tcp::Interface>> all = tcp::listInterfaces();
  if (!config.ok() || !all.ok()) return names;
  const Result<std::vector<tcp::Interface>> chosen =
      tcp::chooseInterfaces(all.value(), config.value().socket_ifname, config.value().socket_family);
  if (!chosen.ok()) return names;
  for (const tcp::Interface& interface : chosen.value())
    if (!interface.private_bridge && std::find(names.begin(), names.end(), interface.name) == names.end())
      names.push_back(interface.name);
  std::sort(names.begin(), names.end());
  return names;
}

NodeFacts gatherNodeFacts(const Result<MachineGraph>& graph) {
  NodeFacts facts;
  facts["processor"] = cpuInfo("model name");
  facts["microcode"] = cpuInfo("microcode");
  facts["BIOS"] = lineOf("/sys/class/dmi/id/bios_version");
  facts["highest clock in kHz"] = lineOf("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  facts["processors"] = processorCount();
  facts["memory"] = memoryText();
  facts["frequency governor"] = lineOf("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  utsname system{};
  if (uname(&system) == 0) facts["kernel"] = system.release;
  facts["C library"] = gnu_get_libc_version();
  int version = 0;
  if (horingGetVersion(&version) == horingSuccess)
    facts["horing"] = versionText(static_cast<uint32_t>(version));
  facts["limit of locked memory"] = limitText(RLIMIT_MEMLOCK);
  facts["limit of open files"] = limitText(RLIMIT_NOFILE);
  facts["congestion control of TCP"] = lineOf("/proc/sys/net/ipv4/tcp_congestion_control");
  facts["buffers of TCP, received"] = lineOf("/proc/sys/net/ipv4/tcp_rmem");
  facts["buffers of TCP, sent"] = lineOf("/proc/sys/net/ipv4/tcp_wmem");
  facts["turbo"] = lineOf("/sys/devices/system/cpu/cpufreq/boost");
  facts["threads of a core in use"] = lineOf("/sys/devices/system/cpu/smt/active");
  addDeviceFacts(facts, interfacesInUse());
  if (const Result<std::vector<GpuState>> gpus = readGpuStates(); gpus.ok())
    addGpuStates(facts, gpus.value());
  if (graph.ok())
    if (const std::string adapters = adaptersOfGpus(graph.value()); !adapters.empty())
      facts["adapters of GPUs"] = adapters;
  return facts;
}

std::string factsToText(const NodeFacts& facts) {
  std::string text;
  for (const auto& [name, value] : facts)
    text += printable(name, kMostLetters) + "\n" + printable(value, kMostLettersOfValue) + "\n";
  return text;
}

NodeFacts factsFromText(const std::string& text) {
  NodeFacts facts;
  std::istringstream lines(text);
  std::string name, value;
  while (std::getline(lines, name) && std::getline(lines, value))
    facts[printable(name, kMostLetters)] = printable(value, kMostLettersOfValue);
  return facts;
}

std::vector<Difference> differences(const std::vector<NodeFacts>& of_nodes) {
  std::map<std::string, std::map<std::string, std::vector<int>>> values;
  for (const NodeFacts& facts : of_nodes)
    for (const auto& [name, value] : facts) values[name];
  std::vector<Difference> found;
  for (auto& [name, nodes_with] : values) {
    for (size_t node = 0; node < of_nodes.size(); ++node) {
      const auto fact = of_nodes[node].find(name);
      if (fact != of_nodes[node].end() && fact->second == kNoRights) continue;
      nodes_with[fact == of_nodes[node].end() ? "" : fact->second].push_back(static_cast<int>(node));
    }
    const auto usual =
        std::max_element(nodes_with.begin(), nodes_with.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second.size(), -a.second.front()) <
                 std::pair(b.second.size(), -b.second.front());
        });
    for (const auto& [value, nodes] : nodes_with)
      if (value != usual->first) found.push_back({name, usual->first, value, nodes});
  }
  return found;
}

std::map<std::string, std::vector<int>> unreadable(const std::vector<NodeFacts>& of_nodes) {
  std::map<std::string, std::vector<int>> nodes;
  for (size_t node = 0; node < of_nodes.size(); ++node)
    for (const auto& [name, value] : of_nodes[node])
      if (value == kNoRights) nodes[name].push_back(static_cast<int>(node));
  return nodes;
}

}  // namespace horing::check
