#include "horing_run/emulated_network.h"

#include <fstream>
#include <sstream>

#include "base/first_line.h"
#include "horing_run/network_namespace.h"
#include "horing_run/traffic_shape.h"

namespace horing::run {

namespace {

// Settings that prevent delays by the protocol stack that no real link has, and buffers too small for the rate.
std::vector<std::pair<std::string, std::string>> networkSettings() {
  return {
      {"ipv6/conf/all/disable_ipv6", "1"},  // its neighbour discovery would show in the byte counters
      {"ipv4/conf/all/arp_ignore", "1"},    // with several rails, answer only for the interface's own address
      {"ipv4/conf/all/arp_announce", "2"},       {"ipv4/conf/all/rp_filter", "0"},
      {"ipv4/tcp_congestion_control", "cubic"},  // bbr, some systems' default, misjudges links this short
      {"ipv4/tcp_no_metrics_save", "1"},         // connections do not influence later ones
      {"ipv4/tcp_slow_start_after_idle", "0"},   {"ipv4/tcp_rmem", "4096 131072 33554432"},
      {"ipv4/tcp_wmem", "4096 262144 33554432"},
  };
}

// A namespace may choose only among the congestion controls that the machine allows every user. Extending that list is the only change that
// outlives a run; it is harmless, and only root can do it.
void allowCubic() {
  const char* path = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
  const std::string allowed = firstLine(path);
  if (!allowed.empty() && allowed.find("cubic") == std::string::npos)
    std::ofstream(path) << allowed << " cubic";
}

std::string portName(int node, int rail) {
  return formatString("n%dr%d", node, rail);
}

// The bridge needs no learning and no spanning tree.
std::string bridgeCommands(const std::string& bridge) {
  return formatString(
      "link add %s mtu %d type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
      "link set %s up\n",
      bridge.c_str(), kMtu, bridge.c_str());
}

std::string railBridge(int rail) {
  return formatString("br%d", rail);
}

std::string uplinkBridge(size_t uplink, int rail) {
  return formatString("br%du%zu", rail, uplink);
}

// A bridge below the rail's, and the shaped link between them.
void addUplink(size_t number, const Uplink& uplink, int rail, NetworkCommands& commands) {
  const std::string bridge = uplinkBridge(number, rail);
  const std::string ends[] = {formatString("u%zur%d", number, rail), formatString("d%zur%d", number, rail)};
  const TrafficShape shape = shapeForRate(uplink.rate_mbit);
  commands.ip_batch += bridgeCommands(bridge);
  commands.ip_batch += formatString("link add %s mtu %d type veth peer name %s mtu %d\n", ends[0].c_str(),
                                    kMtu, ends[1].c_str(), kMtu);
  for (const std::string& end : ends) {
    const std::string above = &end == &ends[0] ? bridge : railBridge(rail);
    commands.ip_batch += formatString("link set %s master %s up\n", end.c_str(), above.c_str());
    commands.ip_batch += offloadCommand(end, shape);
    commands.tc_batch += shapeCommands(end, shape);
  }
}

// "  r0: 123 4 0 ..." of /proc/net/dev: 8 columns received, then 8 sent, bytes first.
bool parseCounters(const std::string& line, const std::string& interface, InterfaceCounters& counters) {
  std::istringstream words(line);
  std::string name;
  std::getline(words >> std::ws, name, ':');
  if (name != interface) return false;
  uint64_t unused = 0;
  words >> counters.received_bytes;
  for (int i = 0; i < 7; ++i) words >> unused;
  words >> counters.sent_bytes;
  counters.interface = name;
  return !words.fail();
}

}  // namespace

Result<std::unique_ptr<EmulatedNetwork>> EmulatedNetwork::create(const NetworkSpec& spec) {
  std::unique_ptr<EmulatedNetwork> network(new EmulatedNetwork(spec));
  allowCubic();
  HORING_ASSIGN(network->switch_, makeNetworkNamespace());
  for (int node = 0; node < spec.nodes; ++node) {
    HORING_ASSIGN(auto made, IsolatedNode::create({"node" + std::to_string(node), spec.shm_mib}));
    network->nodes_.push_back(std::move(made));
  }
  HORING_TRY(network->connectNodes());
  for (int node = 0; node < spec.nodes; ++node) HORING_TRY(network->configureNode(node));
  return network;
}

Status EmulatedNetwork::connectNodes() {
  NetworkCommands commands{networkSettings(), "", ""};
  for (int rail = 0; rail < spec_.rails; ++rail) {
    commands.ip_batch += bridgeCommands(railBridge(rail));
    for (size_t i = 0; i < spec_.uplinks.size(); ++i) addUplink(i, spec_.uplinks[i], rail, commands);
    for (int node = 0; node < spec_.nodes; ++node) {
      const std::string port = portName(node, rail);
      commands.ip_batch +=
          formatString("link add %s mtu %d type veth peer name %s mtu %d netns %d\n", port.c_str(), kMtu,
                       interface(rail).c_str(), kMtu, static_cast<int>(nodes_[node]->pid()));
      commands.ip_batch +=
          formatString("link set %s master %s up\n", port.c_str(), bridgeOf(node, rail).c_str());
      if (rateOf(node) == 0) continue;
      const TrafficShape shape = shapeForRate(rateOf(node));
      commands.ip_batch += offloadCommand(port, shape);
      commands.tc_batch += shapeCommands(port, shape);
    }
  }
  return runInNetwork(switch_.get(), "the switch", commands);
}

std::string EmulatedNetwork::bridgeOf(int node, int rail) const {
  for (size_t i = 0; i < spec_.uplinks.size(); ++i)
    if (spec_.uplinks[i].first_node <= node && node <= spec_.uplinks[i].last_node)
      return uplinkBridge(i, rail);
  return railBridge(rail);
}

Status EmulatedNetwork::configureNode(int node) {
  NetworkCommands commands{networkSettings(), "link set lo up\n", ""};
  for (int rail = 0; rail < spec_.rails; ++rail) {
    const std::string device = interface(rail);
    commands.ip_batch += formatString("addr add %s/24 dev %s\n", address(node, rail).c_str(), device.c_str());
    commands.ip_batch += formatString("link set %s up\n", device.c_str());
    if (rateOf(node) == 0) continue;
    const TrafficShape shape = shapeForRate(rateOf(node));
    commands.ip_batch += offloadCommand(device, shape);
    commands.tc_batch += shapeCommands(device, shape);
  }
  return runInNetwork(this->node(node).network(), "node" + std::to_string(node), commands);
}

int EmulatedNetwork::slowestRate() const {
  int slowest = 0;
  for (const int rate : spec_.rates_mbit)
    if (rate > 0 && (slowest == 0 || rate < slowest)) slowest = rate;
  return slowest;
}

Status EmulatedNetwork::setRate(int node, int rate_mbit) {
  spec_.rates_mbit[static_cast<size_t>(node)] = rate_mbit;
  const TrafficShape shape = shapeForRate(rate_mbit);
  NetworkCommands at_switch, at_node;
  for (int rail = 0; rail < spec_.rails; ++rail) {
    for (const auto& [commands, device] :
         {std::pair(&at_switch, portName(node, rail)), std::pair(&at_node, interface(rail))}) {
      commands->ip_batch += offloadCommand(device, shape);
      commands->tc_batch += reshapeCommands(device, shape);
    }
  }
  HORING_TRY(runInNetwork(switch_.get(), "the switch", at_switch));
  return runInNetwork(this->node(node).network(), "node" + std::to_string(node), at_node);
}

std::string EmulatedNetwork::address(int node, int rail) const {
  return formatString("10.77.%d.%d", rail, node + 1);
}

std::string EmulatedNetwork::interface(int rail) const {
  return formatString("r%d", rail);
}

Result<std::vector<InterfaceCounters>> EmulatedNetwork::readCounters() const {
  std::vector<InterfaceCounters> all;
  for (int node = 0; node < spec_.nodes; ++node) {
    for (int rail = 0; rail < spec_.rails; ++rail) {
      const std::string path = formatString("/proc/%d/net/dev", static_cast<int>(this->node(node).pid()));
      std::ifstream file(path);
      InterfaceCounters counters{.node = node};
      bool found = false;
      for (std::string line; !found && std::getline(file, line);)
        found = parseCounters(line, interface(rail), counters);
      if (!found)
        return makeStatus(Code::kSystemError, "%s of node %d does not show %s", path.c_str(), node,
                          interface(rail).c_str());
      all.push_back(counters);
    }
  }
  return all;
}

}  // namespace horing::run
