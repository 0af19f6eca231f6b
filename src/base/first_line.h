#pragma once
// A small file of the system, as below /sys and /proc.
#include <filesystem>
#include <fstream>
#include <string>

namespace horing {

// The first line; empty if it cannot be read (the speed of a link that is down: EINVAL).
inline std::string firstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace horing
