#pragma once
// A folder of files that represents the root of a machine, so that no test depends on its own machine.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../temporary_folder.h"

namespace horing {

class FakeRoot : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path& root_ = folder_.path();
};

}  // namespace horing
