#include "horing_check/rails.h"

#include <cstdlib>
#include <filesystem>

#include "base/config.h"
#include "base/first_line.h"
#include "base/folder_entries.h"
#include "horing_check/facts.h"
#include "horing_check/nodes.h"
#include "transport/verbs/device_selection.h"

namespace horing::check {

namespace {

namespace fs = std::filesystem;

bool isActive(const fs::path& port) {
  return firstLine(port / "state").find("ACTIVE") != std::string::npos;
}

}  // namespace

std::vector<std::string> rdmaPorts(const std::string& chosen, const fs::path& devices) {
  std::vector<std::string> names;
  const Result<verbs::DeviceSelection> selection = verbs::DeviceSelection::parse(chosen);
  if (!selection.ok()) return names;  // the library says what is wrong
  for (const fs::path& device : sortedEntries(devices)) {
    const std::string name = device.filename();
    const std::vector<fs::path> ports = sortedEntries(device / "ports");
    for (const fs::path& port : ports) {
      const std::string number = port.filename();
      if (isActive(port) && selection.value().chooses(name, std::atoi(number.c_str())))
        names.push_back(ports.size() == 1 ? name : name + ":" + number);
    }
  }
  return names;
}

Rails takeRails() {
  Rails rails;
  const Result<Config> config = Config::fromEnvironment();
  if (!config.ok()) return rails;  // the library says what is wrong
  rails.chosen = config.value().socket_ifname;
  rails.names = interfacesInUse();
  if (config.value().transports.find("verbs") != std::string::npos) {
    const std::vector<std::string> ports = rdmaPorts(config.value().ib_hca, "/sys/class/infiniband");
    if (!ports.empty()) rails = {"HORING_IB_HCA", config.value().ib_hca, ports};
  }
  if (useAll(rails).ok()) unsetenv(rails.variable);
  return rails;
}

Status useOnly(const Rails& rails, const std::string& name) {
  return called(horingSetDefault(rails.variable, ("=" + name).c_str()), rails.variable);
}

Status useAll(const Rails& rails) {
  return called(horingSetDefault(rails.variable, rails.chosen.empty() ? nullptr : rails.chosen.c_str()),
                rails.variable);
}

}  // namespace horing::check
