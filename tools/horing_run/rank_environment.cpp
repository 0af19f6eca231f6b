#include "horing_run/rank_environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/hex.h"

namespace horing::run {

namespace {

// Outside the range from which systems take ports for outgoing connections.
constexpr int kPortOnEmulatedNode = 29400;
constexpr int kMasterPortOnEmulatedNode = 29401;

Result<std::string> makeSecret() {
  std::array<uint8_t, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return systemError(errno, "reading random bytes for the job's secret");
  return hexText(std::as_bytes(std::span(bytes)));
}

Result<int> bindFreePort(Fd& holder) {
  holder = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!holder.valid()) return systemError(errno, "making a socket");
  const int on = 1;
  setsockopt(holder.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(holder.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return systemError(errno, "finding a free port on 127.0.0.1");
  return static_cast<int>(ntohs(address.sin_port));
}

void setVariable(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  const std::string start = name + "=";
  environment.erase(std::remove_if(environment.begin(), environment.end(),
                                   [&](const std::string& entry) { return entry.starts_with(start); }),
                    environment.end());
  environment.push_back(start + value);
}

}  // namespace

Result<Rendezvous> makeRendezvous(const EmulatedNetwork* network) {
  Rendezvous rendezvous;
  HORING_ASSIGN(rendezvous.secret, makeSecret());
  int port = kPortOnEmulatedNode;
  rendezvous.master_port = kMasterPortOnEmulatedNode;
  if (network) {
    rendezvous.host = network->address(0, 0);
  } else {
    rendezvous.host = "127.0.0.1";
    HORING_ASSIGN(port, bindFreePort(rendezvous.port_holder));
    HORING_ASSIGN(rendezvous.master_port, bindFreePort(rendezvous.master_port_holder));
  }
  rendezvous.root = rendezvous.host + ":" + std::to_string(port);
  return rendezvous;
}

std::vector<std::string> rankEnvironment(const Placement& place, int world_size, const Rendezvous& rendezvous,
                                         const EmulatedNetwork* network) {
  std::vector<std::string> environment;
  for (char** entry = environ; entry && *entry; ++entry) {
    // The variables of an enclosing run must not be inherited.
    if (!std::string_view(*entry).starts_with("HORING_RUN_")) environment.emplace_back(*entry);
  }
  setVariable(environment, "RANK", std::to_string(place.rank));
  setVariable(environment, "WORLD_SIZE", std::to_string(world_size));
  setVariable(environment, "LOCAL_RANK", std::to_string(place.local_rank));
  setVariable(environment, "LOCAL_WORLD_SIZE", std::to_string(place.local_size));
  setVariable(environment, "MASTER_ADDR", rendezvous.host);
  setVariable(environment, "MASTER_PORT", std::to_string(rendezvous.master_port));
  setVariable(environment, "HORING_ROOT", rendezvous.root);
  setVariable(environment, "HORING_RUN_SECRET", rendezvous.secret);
  if (!network) return environment;
  std::string interfaces;
  for (int rail = 0; rail < network->spec().rails; ++rail)
    interfaces += (rail > 0 ? "," : "") + network->interface(rail);
  setVariable(environment, "HORING_RUN_NODE", std::to_string(place.node));
  setVariable(environment, "HORING_RUN_NODES", std::to_string(network->spec().nodes));
  setVariable(environment, "HORING_RUN_INTERFACES", interfaces);
  const std::vector<int>& rates = network->spec().rates_mbit;
  setVariable(environment, "HORING_RUN_RATE_MBIT", std::to_string(network->slowestRate()));
  if (std::adjacent_find(rates.begin(), rates.end(), std::not_equal_to<>()) == rates.end())
    return environment;
  std::string of_nodes;
  for (const int rate : rates) of_nodes += (of_nodes.empty() ? "" : ",") + std::to_string(rate);
  setVariable(environment, "HORING_RUN_RATES_MBIT", of_nodes);
  return environment;
}

}  // namespace horing::run
