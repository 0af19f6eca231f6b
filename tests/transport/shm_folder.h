#pragma once
// A directory under /dev/shm for one test, removed with its contents.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "transport/shm/shm_transport.h"

namespace horing::testing {

class ShmFolder {
 public:
  ShmFolder() {
    std::string pattern =
        (std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/test-XXXXXX");
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no directory " << pattern;
    path_ = pattern;
  }
  ~ShmFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ShmFolder(const ShmFolder&) = delete;
  ShmFolder& operator=(const ShmFolder&) = delete;

  const std::string& path() const { return path_; }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    return names;
  }
  ShmOptions options(int rank) const {
    ShmOptions options;
    options.directory = path_;
    options.job = "test";
    options.rank = rank;
    options.clock = &clock_;
    return options;
  }

 private:
  SteadyClock clock_;
  std::string path_;
};

}  // namespace horing::testing
