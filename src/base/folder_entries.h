#pragma once
// What a folder holds. The loop over std::filesystem::directory_iterator throws where the folder goes away under it.
#include <filesystem>
#include <system_error>
#include <vector>

namespace horing {

// In the order of the file system, as far as it can be read: nothing where there is no such folder.
inline std::vector<std::filesystem::path> folderEntries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) paths.push_back(entries->path());
  return paths;
}

}  // namespace horing
