#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "horing_info/facts.h"

namespace horing::info {

namespace {

using Json = nlohmann::ordered_json;

double mib(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string versionsText(const Facts& facts) {
  return formatString("horing %s (library %s, protocol %u)\n\n",
                      versionText(static_cast<uint32_t>(facts.header_version)).c_str(),
                      versionText(static_cast<uint32_t>(facts.library_version)).c_str(),
                      facts.protocol_version);
}

std::string interfaceText(const NetworkInterface& interface) {
  std::string text = "  " + interface.name + (interface.up ? ", up" : ", down");
  if (interface.speed_mbit > 0)
    text += formatString(", %lld Mbit/s", static_cast<long long>(interface.speed_mbit));
  if (interface.numa_node >= 0) text += formatString(", NUMA node %d", interface.numa_node);
  return text + (interface.loopback ? ", loopback\n" : "\n");
}

std::string machineText(const Facts& facts) {
  std::string text = "Machine\n";
  if (!facts.machine_status.ok()) return text + "  not found out: " + facts.machine_status.message() + "\n\n";
  const Machine& machine = facts.machine;
  if (!machine.cpu_model.empty()) text += "  " + machine.cpu_model + "\n";
  text += "  " + machine.describe() + "\n";
  for (const NetworkInterface& interface : machine.interfaces) text += interfaceText(interface);
  for (const std::string& port : facts.rdma_ports) text += "  " + port + "\n";
  return text + "\n";
}

// Rounded up, as a size to ask for.
std::string nodeShmText(const Facts& facts) {
  const auto wholeMib = [](uint64_t bytes) { return static_cast<long long>((bytes + (1 << 20) - 1) >> 20); };
  std::string text;
  for (const NodeShmBytes& node : facts.node_shm)
    text += formatString(
        "  A communicator of %2d ranks on a node takes at most %3lld MiB of its /dev/shm, and %lld more if "
        "all "
        "exchange messages\n",
        node.ranks, wholeMib(node.collectives), wholeMib(node.messages));
  return text.empty() ? "" : "Shared memory (HORING_SHM_DIR)\n" + text + "\n";
}

std::string transportsText(const Facts& facts) {
  if (facts.transports.empty()) return "";
  std::string text =
      formatString("Transports, tried with a communicator of %d ranks in this process\n", facts.trial_ranks);
  for (const TransportTrial& trial : facts.transports) {
    text += formatString("  %-8s", trial.name.c_str());
    text += trial.status.ok() ? formatString("usable, a rank's end takes %.2f MiB with small messages\n",
                                             mib(trial.bytes_per_rank))
                              : "not usable: " + trial.status.message() + "\n";
  }
  text += formatString(
      "  Where kernels serve ranks of one process (HORING_GPU_PATH), each takes %.2f MiB of its GPU\n",
      mib(facts.gpu_bytes_per_rank));
  return text + "\n";
}

std::string variableText(const Variable& v, size_t width) {
  std::string text = formatString("  %-*s%s%s\n", static_cast<int>(width), v.name.c_str(),
                                  v.value.empty() ? "(empty)" : v.value.c_str(),
                                  v.is_set ? "   <- from the environment" : "");
  text += "      " + v.help + (v.is_shared ? " The same on all ranks.\n" : "\n");
  if (!v.allowed.empty())
    text += "      " + v.allowed +
            (v.is_set ? ", default " + (v.fallback.empty() ? "(empty)" : v.fallback) : "") + "\n";
  return text;
}

Json machineJson(const Facts& facts) {
  if (!facts.machine_status.ok()) return {{"error", facts.machine_status.message()}};
  const Machine& m = facts.machine;
  Json interfaces = Json::array();
  for (const NetworkInterface& i : m.interfaces)
    interfaces.push_back({{"name", i.name},
                          {"up", i.up},
                          {"loopback", i.loopback},
                          {"speed_mbit", i.speed_mbit},
                          {"numa_node", i.numa_node}});
  return {{"cpu_model", m.cpu_model},
          {"packages", m.packages},
          {"numa_nodes", m.numa_nodes},
          {"cores", m.cores},
          {"processing_units", m.processing_units},
          {"usable_units", m.usable_units},
          {"memory_bytes", m.memory_bytes},
          {"interfaces", interfaces}};
}

Json variablesJson(const std::vector<Variable>& variables) {
  Json all = Json::array();
  for (const Variable& v : variables)
    all.push_back({{"name", v.name},
                   {"value", v.value},
                   {"set", v.is_set},
                   {"default", v.fallback},
                   {"kind", v.kind},
                   {"allowed", v.allowed},
                   {"same_on_all_ranks", v.is_shared},
                   {"help", v.help}});
  return all;
}

Json transportsJson(const std::vector<TransportTrial>& trials) {
  Json all = Json::array();
  for (const TransportTrial& trial : trials) {
    Json one = {{"name", trial.name}, {"usable", trial.status.ok()}};
    if (trial.status.ok())
      one["communicator_bytes_per_rank"] = trial.bytes_per_rank;
    else
      one["error"] = trial.status.message();
    all.push_back(one);
  }
  return all;
}

}  // namespace

std::string factsText(const Facts& facts) {
  std::string text = versionsText(facts) + machineText(facts) + transportsText(facts) + nodeShmText(facts);
  text += "Environment variables: value in effect, meaning, allowed values\n";
  size_t width = 0;
  for (const Variable& v : facts.variables) width = std::max(width, v.name.size() + 2);
  for (const Variable& v : facts.variables) text += variableText(v, width);
  if (!facts.configuration.ok())
    text += "\nThe environment is not valid: " + facts.configuration.message() + "\n";
  for (const std::string& sentence : facts.unknown_variables) text += "\nWarning: " + sentence + "\n";
  return text;
}

std::string factsJson(const Facts& facts) {
  Json all = {{"version", versionText(static_cast<uint32_t>(facts.header_version))},
              {"library_version", versionText(static_cast<uint32_t>(facts.library_version))},
              {"protocol_version", facts.protocol_version}};
  all["machine"] = machineJson(facts);
  all["rdma_ports"] = facts.rdma_ports;
  all["trial_ranks"] = facts.trial_ranks;
  all["transports"] = transportsJson(facts.transports);
  all["node_shm"] = Json::array();
  for (const NodeShmBytes& node : facts.node_shm)
    all["node_shm"].push_back(
        {{"ranks", node.ranks}, {"collectives_bytes", node.collectives}, {"messages_bytes", node.messages}});
  all["gpu_bytes_per_rank"] = facts.gpu_bytes_per_rank;
  all["variables"] = variablesJson(facts.variables);
  all["environment_error"] = facts.configuration.ok() ? Json() : Json(facts.configuration.message());
  all["environment_warnings"] = facts.unknown_variables;
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace horing::info
