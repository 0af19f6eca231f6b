#include <filesystem>

#include "base/first_line.h"
#include "base/folder_entries.h"
#include "horing_info/facts.h"

namespace horing::info {

namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<std::string> readRdmaPorts(const std::string& folder) {
  std::vector<std::string> ports;
  for (const fs::path& device : sortedEntries(folder))
    for (const fs::path& port : sortedEntries(device / "ports")) {
      const std::string layer = firstLine(port / "link_layer");
      ports.push_back(device.filename().string() + " port " + port.filename().string() + ": " +
                      (layer == "Ethernet" ? "RoCE" : layer) + ", " + firstLine(port / "rate") + ", state " +
                      firstLine(port / "state"));
    }
  return ports;
}

}  // namespace horing::info
