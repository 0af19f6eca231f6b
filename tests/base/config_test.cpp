#include "base/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "../temporary_folder.h"

namespace horing {
namespace {

Result<Config> parse(std::map<std::string, std::string> values) {
  return Config::fromLookup([values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

TEST(Config, TakesDefaultsWhenNothingIsSet) {
  const Result<Config> config = parse({});
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config.value().debug, "warn");
  EXPECT_EQ(config.value().socket_streams, 1);
  EXPECT_EQ(config.value().slice_bytes, 65536);
  EXPECT_FALSE(config.value().insecure);
  EXPECT_EQ(config.value().logLevel(), LogLevel::kWarn);
}

TEST(Config, TakesAnEmptyValueAsUnset) {
  const Result<Config> config = parse({{"HORING_TESTS_SLOTS", ""}, {"HORING_DEBUG", ""}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().slots, parse({}).value().slots);
}

TEST(Config, ParsesEveryKind) {
  const Result<Config> config = parse({{"HORING_DEBUG", "trace"},
                                       {"HORING_TESTS_SLOTS", "128"},
                                       {"HORING_INSECURE", "1"},
                                       {"HORING_SOCKET_IFNAME", "^docker,=lo"},
                                       {"HORING_ALGO", "ho_ring"}});
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config.value().logLevel(), LogLevel::kTrace);
  EXPECT_EQ(config.value().slots, 128);
  EXPECT_TRUE(config.value().insecure);
  EXPECT_EQ(config.value().socket_ifname, "^docker,=lo");
  EXPECT_EQ(config.value().algorithm, "ho_ring");
}

// For every variable: its default is allowed, and values at and beyond the borders of its range are judged right.
TEST(Config, JudgesEveryVariableAndNamesTheBadOne) {
  for (const ConfigVariable& v : configVariables()) {
    EXPECT_EQ(std::strncmp(v.name, "HORING_", 7), 0) << v.name;
    EXPECT_EQ(std::strncmp(v.name, "HORING_TESTS_", 13) == 0, v.for_tests) << v.name;
    EXPECT_GT(std::strlen(v.help), 10u) << v.name;
    std::vector<std::string> bad;
    const std::string kind = v.kind;
    if (kind == "Choice") {
      bad = {"no such choice", std::string(v.allowed) + "|", "|", "a|b"};
    } else if (kind == "Flag") {
      bad = {"2", "yes", "-1", "01"};
    } else if (kind == "Int") {
      char* end = nullptr;
      const long long low = std::strtoll(v.allowed, &end, 10);
      const long long high = std::strtoll(end + 2, nullptr, 10);
      EXPECT_LT(low, high) << v.name;
      bad = {std::to_string(low - 1), std::to_string(high + 1), "x", "7x", "99999999999999999999", "1.5"};
      for (long long border : {low, high}) {
        // Window and slots also limit each other; those borders are tested below.
        if (std::strstr(v.name, "SLOTS") || std::strcmp(v.name, "HORING_TESTS_WINDOW") == 0) continue;
        const Result<Config> config = parse({{v.name, std::to_string(border)}});
        EXPECT_TRUE(config.ok()) << config.status().toString();
      }
    }
    for (const std::string& value : bad) {
      const Result<Config> config = parse({{v.name, value}});
      ASSERT_FALSE(config.ok()) << v.name << '=' << value;
      EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
      EXPECT_NE(config.status().message().find(std::string(v.name) + "=" + value), std::string::npos)
          << config.status().message();
      EXPECT_NE(config.status().message().find(v.allowed), std::string::npos) << config.status().message();
    }
  }
}

TEST(Config, AcceptsEveryChoice) {
  for (const ConfigVariable& v : configVariables()) {
    if (std::strcmp(v.kind, "Choice") != 0) continue;
    std::string rest = v.allowed;
    while (!rest.empty()) {
      const size_t bar = rest.find('|');
      const std::string choice = rest.substr(0, bar);
      EXPECT_TRUE(parse({{v.name, choice}}).ok()) << v.name << '=' << choice;
      rest = bar == std::string::npos ? "" : rest.substr(bar + 1);
    }
  }
}

TEST(Config, ReadsNcclsSpellings) {
  EXPECT_EQ(parse({{"HORING_DEBUG", "INFO"}}).value().debug, "info");
  EXPECT_EQ(parse({{"HORING_DEBUG", "Version"}}).value().debug, "warn");
  EXPECT_EQ(parse({{"HORING_SOCKET_FAMILY", "AF_INET6"}}).value().socket_family, "ipv6");
  EXPECT_FALSE(parse({{"HORING_TESTS_SIMD", "AVX2"}}).ok());
}

TEST(Config, TakesDefaultsWhereTheEnvironmentSaysNothing) {
  ASSERT_TRUE(setDefault("HORING_TESTS_WINDOW", "5").ok());
  EXPECT_EQ(Config::fromEnvironment().value().window, 5);
  ::setenv("HORING_TESTS_WINDOW", "6", 1);
  EXPECT_EQ(Config::fromEnvironment().value().window, 6);
  ::unsetenv("HORING_TESTS_WINDOW");
  ASSERT_TRUE(setDefault("HORING_TESTS_WINDOW", nullptr).ok());
  EXPECT_EQ(Config::fromEnvironment().value().window, 4);
  EXPECT_FALSE(setDefault("HORING_WINDOWS", "5").ok());
}

TEST(Log, GoesToAFileInEitherForm) {
  const horing::test::TemporaryFolder folder;
  const std::string path = (folder.path() / "log-%p").string();
  for (const char* form : {"horing", "nccl"}) {
    const Config config = parse({{"HORING_DEBUG_FILE", path}, {"HORING_DEBUG_FORM", form}}).value();
    config.log(3).warn("test", "of %s", form);
  }
  std::ifstream file(folder.path() / ("log-" + std::to_string(::getpid())));
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_TRUE(first.starts_with("horing ") && first.ends_with(" rank 3 WARN test: of horing")) << first;
  EXPECT_TRUE(second.ends_with(" [3] NCCL WARN of nccl")) << second;
}

TEST(Log, GoesToStderrWhereItsFileCannotBeWrittenWhichIsSaidOnce) {
  static int run = 0;  // once in a process for each path
  const std::string path = "/nowhere/log" + std::to_string(run++);
  const Config config = parse({{"HORING_DEBUG_FILE", path}}).value();
  testing::internal::CaptureStderr();
  for (const int rank : {-1, 0, 1}) config.log(rank).warn("test", "of rank %d", rank);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string warning = "WARN config: HORING_DEBUG_FILE: cannot write " + path + ": No such file";
  const size_t at = said.find(warning);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(warning, at + 1), std::string::npos) << said;
  for (const char* line : {"test: of rank -1", "test: of rank 0", "test: of rank 1"})
    EXPECT_NE(said.find(line), std::string::npos) << said;
}

TEST(Config, RefusesAsManySlotsAsWindow) {
  EXPECT_FALSE(parse({{"HORING_TESTS_WINDOW", "8"}, {"HORING_TESTS_SLOTS", "8"}}).ok());
  EXPECT_TRUE(parse({{"HORING_TESTS_WINDOW", "8"}, {"HORING_TESTS_SLOTS", "9"}}).ok());
  EXPECT_FALSE(parse({{"HORING_TESTS_WINDOW", "8"}, {"HORING_TESTS_SOCKET_SLOTS", "8"}}).ok());
}

// Sets variables while the object exists.
class Environment {
 public:
  explicit Environment(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_) ::setenv(name.c_str(), "9", 1);
  }
  ~Environment() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::string> names_;
};

TEST(Config, ReadsTheEnvironmentAndIgnoresWhatItDoesNotKnow) {
  const Environment set({"HORING_TESTS_SLOTS", "HORING_SLICE"});
  const Result<Config> config = Config::fromEnvironment();
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config.value().slots, 9);
}

TEST(UnknownVariables, AreEachToldWithTheNameThatWasPerhapsMeant) {
  EXPECT_TRUE(unknownVariables().empty()) << unknownVariables().front();
  const std::pair<const char*, const char*> typos[] = {{"HORING_SLICE", "did you mean HORING_SLICE_BYTES?"},
                                                       {"HORING_ALGORITHM", "did you mean HORING_ALGO?"},
                                                       {"HORING_TIMEOUT", "did you mean HORING_TIMEOUT_MS?"},
                                                       {"HORING_SHMDIR", "did you mean HORING_SHM_DIR?"},
                                                       {"HORING_SOCKET_IFNAMES", "HORING_SOCKET_IFNAME?"},
                                                       {"HORING_DEBGU", "did you mean HORING_DEBUG?"},
                                                       {"HORING_TURBO", "horing-info"},
                                                       {"HORING_", "horing-info"},
                                                       {"HORING_X", "horing-info"},
                                                       {"HORING_WINDOW", "horing-info"},
                                                       {"HORING_GPU_PROXIES", "horing-info"},
                                                       {"HORING_SINGLE_COPY", "horing-info"},
                                                       {"HORING_SOCKET_CONGESTION", "horing-info"}};
  for (const auto& [name, expected] : typos) {
    const Environment set({name, "HORING_TESTS_SLOTS", "HORING_RUN_ANYTHING", "HORING_PREBUILT", "HORINGUE"});
    const std::vector<std::string> told = unknownVariables();
    ASSERT_EQ(told.size(), 1u) << name;
    EXPECT_NE(told[0].find(std::string(name) + " is not one of"), std::string::npos) << told[0];
    EXPECT_NE(told[0].find(expected), std::string::npos) << told[0];
  }
  const Environment set({"HORING_TURBO", "HORING_SLICE"});
  EXPECT_EQ(unknownVariables().size(), 2u);
}

}  // namespace
}  // namespace horing
