// Files that programs write are complete or absent.
#include "common/text_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "../../temporary_folder.h"

namespace horing {
namespace {

std::string textOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TextFile, IsReplacedAsAWhole) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "a.json";
  EXPECT_TRUE(checkWritable(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path)) << "a program that is killed now leaves an empty file";
  EXPECT_TRUE(writeFile(path, "old").ok());
  std::ifstream reader(path);
  EXPECT_TRUE(checkWritable(path).ok());
  EXPECT_EQ(textOf(path), "old");
  EXPECT_TRUE(writeFile(path, "new").ok());
  EXPECT_EQ(textOf(path), "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old") << "who has it open keeps it";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "a part was left";
}

TEST(TextFile, WritesIntoLinksAndPipes) {
  const test::TemporaryFolder folder;
  const std::filesystem::path link = folder.path() / "link", pipe = folder.path() / "pipe";
  std::filesystem::create_symlink("target", link);
  EXPECT_TRUE(writeFile(link, "text").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(textOf(folder.path() / "target"), "text");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = textOf(pipe); });
  EXPECT_TRUE(writeFile(pipe, "text").ok());
  reader.join();
  EXPECT_EQ(read, "text");
}

TEST(TextFile, ThatCannotBeWrittenIsNamed) {
  const test::TemporaryFolder folder;
  const std::string nowhere = folder.path() / "no" / "file", full = "/dev/full";
  for (const Status& status : {checkWritable(nowhere), writeFile(nowhere, "text")})
    EXPECT_NE(status.message().find("cannot write " + nowhere), std::string::npos) << status.message();
  EXPECT_NE(writeFile(full, "text").message().find(full), std::string::npos);
}

}  // namespace
}  // namespace horing
