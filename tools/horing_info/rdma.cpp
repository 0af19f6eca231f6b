#include <algorithm>
#include <filesystem>
#include <fstream>

#include "horing_info/facts.h"

namespace horing::info {

namespace {

namespace fs = std::filesystem;

std::string firstLine(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::vector<fs::path> entriesOf(const fs::path& folder) {
  std::error_code none;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, none)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

std::vector<std::string> readRdmaPorts(const std::string& folder) {
  std::vector<std::string> ports;
  for (const fs::path& device : entriesOf(folder))
    for (const fs::path& port : entriesOf(device / "ports")) {
      const std::string layer = firstLine(port / "link_layer");
      ports.push_back(device.filename().string() + " port " + port.filename().string() + ": " +
                      (layer == "Ethernet" ? "RoCE" : layer) + ", " + firstLine(port / "rate") + ", state " +
                      firstLine(port / "state"));
    }
  return ports;
}

}  // namespace horing::info
