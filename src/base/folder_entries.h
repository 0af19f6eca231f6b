#pragma once
// The entries of a folder. A plain loop over std::filesystem::directory_iterator throws if the folder is removed meanwhile.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace horing {

// In the order of the file system, as far as the folder can be read; empty if it does not exist.
inline std::vector<std::filesystem::path> folderEntries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) paths.push_back(entries->path());
  return paths;
}

inline std::vector<std::filesystem::path> sortedEntries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths = folderEntries(folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace horing
