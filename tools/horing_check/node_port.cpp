#include "horing_check/node_port.h"

#include <string>

#include "base/config.h"
#include "transport/socket/interfaces.h"

namespace horing::check {

Result<NodePort> openNodePort(const Rails& rails) {
  HORING_ASSIGN(const Config config, Config::fromEnvironment());
  HORING_ASSIGN(const std::vector<tcp::Interface> all, tcp::listInterfaces());
  // Rails that are interfaces have taken the variable out of the environment.
  const std::string& names = rails.areRdma() ? config.socket_ifname : rails.chosen;
  HORING_ASSIGN(const std::vector<tcp::Interface> chosen,
                tcp::chooseInterfaces(all, names, config.socket_family));
  HORING_ASSIGN(const PortRange ports, parsePortRange(config.ports));
  NodePort port;
  for (const tcp::Interface& each : chosen) port.addresses.push_back(each.address.withoutScope());
  HORING_ASSIGN(port.listener, listenOn(nullptr, ports));
  return port;
}

}  // namespace horing::check
