#pragma once
// A folder named by a setting, and the files written there.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "ranks.h"

class WrittenFolder {
 public:
  explicit WrittenFolder(const char* setting) : setting_(setting, folder_.path().c_str()) {}
  size_t files() const {
    const std::filesystem::directory_iterator folder(folder_.path());
    return static_cast<size_t>(std::distance(begin(folder), end(folder)));
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::ifstream file(entry.path());
      texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return texts;
  }

 private:
  const horing::test::TemporaryFolder folder_;
  const Setting setting_;
};
