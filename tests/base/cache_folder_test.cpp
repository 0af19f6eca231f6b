#include "base/cache_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../temporary_folder.h"

namespace horing {
namespace {

class Folder : public test::TemporaryFolder {
 public:
  std::string operator/(const char* name) const { return path() / name; }
  size_t entries() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path()), {}));
  }
};

// Of the environment, for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    before_ = had_ ? before : "";
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_;
};

TEST(CacheFolder, IsWhatTheSettingOrTheEnvironmentNames) {
  const Variable home("HOME", "/home/me");
  {
    const Variable caches("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(cacheFolder(""), "/caches/horing");
    EXPECT_EQ(cacheFolder("/elsewhere"), "/elsewhere");
    EXPECT_EQ(cacheFolder("off"), "");
  }
  for (const char* useless : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Variable caches("XDG_CACHE_HOME", useless);
    EXPECT_EQ(cacheFolder(""), "/home/me/.cache/horing");
    const Variable homeless("HOME", useless);
    EXPECT_EQ(cacheFolder(""), "");
  }
}

TEST(CacheFolder, ReadsRegularFilesAndNothingElse) {
  const Folder folder;
  std::ofstream(folder / "file") << "four";
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto read = [&](const char* name) { return readWhole(folder / name, 4); };
  ASSERT_TRUE(read("file").ok());
  EXPECT_EQ(read("file").value(), "four");
  ASSERT_TRUE(read("absent").ok());
  EXPECT_EQ(read("absent").value(), std::nullopt);
  EXPECT_EQ(readWhole(folder / "file/below", 4).value(), std::nullopt);
  EXPECT_NE(read("pipe").status().message().find("is no file"), std::string::npos);
  EXPECT_NE(read(".").status().message().find("is no file"), std::string::npos);
  EXPECT_NE(readWhole(folder / "file", 3).status().message().find("longer than 3 bytes"), std::string::npos);
}

TEST(CacheFolder, MakesItsFolderAndLeavesNothingBehind) {
  const Folder folder;
  EXPECT_TRUE(replaceWhole(folder / "a/file", "one").ok());
  EXPECT_TRUE(replaceWhole(folder / "a/file", "two").ok());
  EXPECT_EQ(readWhole(folder / "a/file", 10).value(), "two");
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(folder / "a/file").permissions()), 0644u);
  EXPECT_FALSE(replaceWhole(folder / "no/such/file", "text").ok()) << "no folder is made but its own";
  std::ofstream(folder / "file") << "in the way";
  EXPECT_NE(replaceWhole(folder / "file/below", "text").message().find("cannot write"), std::string::npos);
  std::filesystem::create_directories(folder / "taken/by");
  EXPECT_NE(replaceWhole(folder / "taken", "text").message().find("cannot write"), std::string::npos);
  EXPECT_EQ(folder.entries(), 3u) << "a draft was left";
}

// A reader finds one of the texts while others write, never a part.
TEST(CacheFolder, ReplacesAtOnce) {
  const Folder folder;
  const std::string path = folder / "file", one(100'000, '1'), two(200'000, '2');
  ASSERT_TRUE(replaceWhole(path, one).ok());
  std::atomic<int> writing = 2;
  const auto write = [&](const std::string& text) {
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(replaceWhole(path, text).ok());
    --writing;
  };
  std::thread first(write, std::cref(one)), second(write, std::cref(two));
  while (writing > 0) {
    const Result<std::optional<std::string>> text = readWhole(path, two.size());
    EXPECT_TRUE(text.ok() && text.value() && (*text.value() == one || *text.value() == two));
  }
  first.join();
  second.join();
  EXPECT_EQ(folder.entries(), 1u);
}

}  // namespace
}  // namespace horing
