#include "horing_check/rails.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/config.h"
#include "base/first_line.h"
#include "base/folder_entries.h"
#include "horing_check/facts.h"
#include "horing_check/nodes.h"
#include "transport/socket/interfaces.h"

namespace horing::check {

namespace {

namespace fs = std::filesystem;

bool isActive(const fs::path& device) {
  return std::ranges::any_of(folderEntries(device / "ports"), [](const fs::path& port) {
    return firstLine(port / "state").find("ACTIVE") != std::string::npos;
  });
}

std::vector<std::string> rdmaDevices(const std::string& chosen) {
  std::vector<std::string> names;
  const Result<tcp::InterfaceSelection> selection = tcp::InterfaceSelection::parse(chosen);
  if (!selection.ok()) return names;
  for (const fs::path& device : sortedEntries("/sys/class/infiniband")) {
    const std::string name = device.filename();
    if ((chosen.empty() || selection.value().lists(name)) && isActive(device)) names.push_back(name);
  }
  return names;
}

}  // namespace

Rails takeRails() {
  Rails rails;
  const Result<Config> config = Config::fromEnvironment();
  if (!config.ok()) return rails;  // the library says what is wrong
  rails.chosen = config.value().socket_ifname;
  rails.names = interfacesInUse();
  if (config.value().transports.find("verbs") != std::string::npos) {
    const std::vector<std::string> devices = rdmaDevices(config.value().ib_hca);
    if (!devices.empty()) rails = {"HORING_IB_HCA", config.value().ib_hca, devices};
  }
  if (useAll(rails).ok()) unsetenv(rails.variable);
  return rails;
}

Status useOnly(const Rails& rails, const std::string& name) {
  return called(horingSetDefault(rails.variable, ("=" + name).c_str()), nullptr, rails.variable);
}

Status useAll(const Rails& rails) {
  return called(horingSetDefault(rails.variable, rails.chosen.empty() ? nullptr : rails.chosen.c_str()),
                nullptr, rails.variable);
}

}  // namespace horing::check
