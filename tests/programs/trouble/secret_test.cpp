// Who may join: the secret of horing-run, key files, and running without.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "job.h"

namespace horing::test {
namespace {

// As torchrun leaves its ranks: with numbers and a place to meet, but no secret.
const std::vector<std::string> kWithoutSecret = {"env", "-u", "HORING_RUN_SECRET"};

class KeyFile {
 public:
  KeyFile(size_t bytes, mode_t mode)
      : path_(testing::TempDir() + "horing-key-" + std::to_string(getpid()) + "-" + std::to_string(bytes)) {
    std::ofstream(path_, std::ios::binary) << std::string(bytes, 'k');
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;
  const std::string& path() const { return path_; }
  std::string variable() const { return "HORING_KEY_FILE=" + path_; }

 private:
  std::string path_;
};

void expectJoinError(const JobOptions& options, int code, const std::vector<std::string>& texts) {
  const JobOutcome outcome = runJob(options);
  for (int rank = 0; rank < options.ranks; ++rank) {
    const Event heard = eventOf(outcome.events, "join", rank);
    EXPECT_EQ(heard.code, code) << heard.text;
    for (const std::string& text : texts) EXPECT_NE(heard.text.find(text), std::string::npos) << heard.text;
  }
}

TEST(Secret, IsWantedWhereTheLauncherGivesNone) {
  expectJoinError({.ranks = 2, .before = kWithoutSecret}, kInvalidUsage,
                  {"HORING_KEY_FILE", "chmod 600", "HORING_INSECURE=1"});
}

TEST(Secret, ComesFromAKeyFile) {
  const KeyFile key(32, 0600);
  const JobOutcome outcome = runJob({.ranks = 2, .environment = {key.variable()}, .before = kWithoutSecret});
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
}

TEST(Secret, MustNotBeReadableByOthers) {
  const KeyFile key(32, 0644);
  expectJoinError({.ranks = 2, .environment = {key.variable()}, .before = kWithoutSecret}, kInvalidArgument,
                  {key.path(), "chmod 600"});
}

TEST(Secret, MustNotBeShort) {
  const KeyFile key(31, 0600);
  expectJoinError({.ranks = 2, .environment = {key.variable()}, .before = kWithoutSecret}, kInvalidArgument,
                  {key.path(), "32"});
}

TEST(Secret, CanBeDoneWithout) {
  const JobOutcome outcome =
      runJob({.ranks = 2, .environment = {"HORING_INSECURE=1"}, .before = kWithoutSecret});
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
}

TEST(Secret, KeepsOutWhoeverHasAnother) {
  const JobOutcome outcome = runJob(
      {.ranks = 3, .words = {"HORING_INIT_TIMEOUT_MS=5000", "2:HORING_RUN_SECRET=" + std::string(64, '0')}});
  const Event intruder = eventOf(outcome.events, "join", 2);
  EXPECT_EQ(intruder.code, kRemoteError) << intruder.text;
  EXPECT_NE(intruder.text.find("does not hold this job's key"), std::string::npos) << intruder.text;
  for (const int rank : {0, 1}) {
    const Event heard = eventOf(outcome.events, "join", rank);
    EXPECT_EQ(heard.code, kTimeout) << heard.text;
    EXPECT_TRUE(namesRank(heard.text, 2)) << heard.text;
    EXPECT_NE(heard.text.find("without proving this job's key"), std::string::npos) << heard.text;
  }
}

TEST(Variable, IsNamedWhenItsValueIsWrong) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"HORING_SLICE_BYTES=abc", {"HORING_SLICE_BYTES=abc", "512.."}},
      {"HORING_TESTS_SLOTS=3", {"HORING_TESTS_SLOTS=3", "HORING_TESTS_WINDOW"}},
      {"HORING_ALGO=spiral", {"HORING_ALGO=spiral", "ho_ring"}},
      {"HORING_TIMEOUT_MS=-1", {"HORING_TIMEOUT_MS=-1", "0.."}},
      {"HORING_TRANSPORTS=shm,rdma", {"HORING_TRANSPORTS=shm,rdma", "socket"}},
      {"HORING_SOCKET_IFNAME=nope", {"HORING_SOCKET_IFNAME=nope", "lo"}},
      {"HORING_INSECURE=yes", {"HORING_INSECURE=yes", "0|1"}},
      {"WORLD_SIZE=many", {"WORLD_SIZE=many", "integer"}},
      {"RANK=-1", {"RANK=-1", "0..0"}},
      {"HORING_ROOT=nowhere", {"HORING_ROOT", "nowhere"}},
  };
  for (const auto& [word, texts] : cases) {
    SCOPED_TRACE(word);
    expectJoinError({.ranks = 1, .words = {word}}, kInvalidArgument, texts);
  }
}

}  // namespace
}  // namespace horing::test
