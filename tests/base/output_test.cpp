#include "base/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "../temporary_folder.h"
#include "base/log.h"

namespace horing {
namespace {

// Of this process, for one test.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

// The write end of a pipe without a reader.
Fd brokenPipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  return Fd(ends[1]);
}

bool isPending(int signal) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, signal) != 0;
}

unsigned modeOf(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777;
}

// A signal would end the test.
TEST(Output, IntoAPipeThatNobodyReadsIsAnError) {
  const Fd pipe = brokenPipe();
  const Status status = writeAll(pipe.get(), "text", "the pipe");
  EXPECT_NE(status.message().find("the pipe: Broken pipe"), std::string::npos) << status.message();
  EXPECT_FALSE(isPending(SIGPIPE));
  Log(LogLevel::kWarn, 0, {.descriptor = pipe.get()}).warn("test", "a line that nobody reads");
}

TEST(Output, BeyondTheLimitOfFilesIsAnErrorThatNamesIt) {
  const test::TemporaryFolder folder;
  const FileSizeLimit limit(1024);
  const Status status = writeWholeFile(folder.path() / "file", std::string(5000, 'x'));
  for (const char* part : {"1024 bytes", "ulimit -f"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_FALSE(isPending(SIGXFSZ));
}

TEST(Output, TakesNoSignalThatAnotherSent) {
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before), 0);
  ::raise(SIGPIPE);
  EXPECT_FALSE(writeAll(brokenPipe().get(), "text", "the pipe").ok());
  EXPECT_TRUE(isPending(SIGPIPE));
  int taken = 0;
  sigwait(&pipe_signal, &taken);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Output, IsForItsOwnerWhateverTheUmask) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "file", inner = folder.path() / "folder";
  const Umask none(0777);
  ASSERT_TRUE(writeWholeFile(path, "one").ok());
  EXPECT_EQ(modeOf(path), 0600u);
  ASSERT_TRUE(makeOneFolder(inner, 0777).ok());
  EXPECT_EQ(modeOf(inner), 0700u);
}

TEST(Output, IsForOthersAsTheUmaskHasIt) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "file", inner = folder.path() / "folder";
  const Umask usual(0022);
  ASSERT_TRUE(openOutput(path, 0, 0666).valid());
  EXPECT_EQ(modeOf(path), 0644u);
  ASSERT_TRUE(makeOneFolder(inner, 0777).ok());
  ASSERT_TRUE(makeOneFolder(inner, 0777).ok()) << "that is there";
  EXPECT_EQ(modeOf(inner), 0755u);
  // An existing file keeps the mode that its user gave it.
  ASSERT_EQ(::chmod(path.c_str(), 0200), 0);
  ASSERT_TRUE(writeWholeFile(path, "text").ok());
  EXPECT_EQ(modeOf(path), 0200u);
}

TEST(Output, ReplacesAFileAsAWholeAndLeavesNoOther) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "file";
  ASSERT_TRUE(writeWholeFile(path, "before").ok());
  std::ifstream reader(path);
  ASSERT_TRUE(replaceFile(path, "after").ok());
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "before") << "who has opened it reads on";
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "after");
  {
    const FileSizeLimit limit(1024);
    EXPECT_FALSE(replaceFile(path, std::string(5000, 'x')).ok());
  }
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "after") << "what could not be written";
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Output, MakesNoFolderAboveTheOne) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(makeOneFolder(folder.path() / "above/one", 0777).ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "above"));
}

TEST(Output, IsTriedWithoutLeavingAny) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(checkCreatable(folder.path() / "file").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const std::string in_none = folder.path() / "none/file";
  EXPECT_NE(checkCreatable(in_none).message().find("cannot write " + in_none + ": No such file or directory"),
            std::string::npos)
      << checkCreatable(in_none).message();
}

TEST(Output, IsTriedWithoutChangingOneThatIsThere) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "file", link = folder.path() / "link";
  ASSERT_TRUE(writeWholeFile(path, "text").ok());
  EXPECT_TRUE(checkCreatable(path).ok()) << checkCreatable(path).message();
  EXPECT_EQ(std::filesystem::file_size(path), 4u);
  std::filesystem::create_symlink(path, link);
  EXPECT_FALSE(checkCreatable(link).ok()) << "writeWholeFile() does not follow it";
  EXPECT_FALSE(checkCreatable(folder.path()).ok());
}

}  // namespace
}  // namespace horing
