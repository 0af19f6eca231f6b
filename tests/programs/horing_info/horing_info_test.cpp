#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "../../rdma_machine.h"
#include "../../temporary_folder.h"
#include "base/config.h"
#include "control/flight_file.h"
#include "program.h"
#include "selection/kept_table.h"

namespace horing::test {
namespace {

using Json = nlohmann::json;

Outcome runInfo(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
  std::vector<std::string> command = {"env"};
  command.insert(command.end(), environment.begin(), environment.end());
  command.push_back(HORING_INFO_PROGRAM);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return runProgram(command);
}

Json named(const Json& list, const std::string& name) {
  for (const Json& one : list)
    if (one["name"] == name) return one;
  ADD_FAILURE() << name << " is not listed";
  return {};
}

TEST(HoringInfo, ListsEveryVariableWithItsValueInEffect) {
  const Outcome outcome = runInfo({"--json", "--ranks", "0"}, {"HORING_SOCKET_STREAMS=3"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  const auto& all = configVariables();
  const auto of_users =
      std::count_if(all.begin(), all.end(), [](const ConfigVariable& v) { return !v.for_tests; });
  EXPECT_EQ(json["variables"].size(), static_cast<size_t>(of_users));
  const Json streams = named(json["variables"], "HORING_SOCKET_STREAMS");
  EXPECT_EQ(streams["value"], "3");
  EXPECT_EQ(streams["set"], true);
  EXPECT_EQ(streams["default"], "1");
  EXPECT_EQ(streams["same_on_all_ranks"], false);
  const Json slice = named(json["variables"], "HORING_SLICE_BYTES");
  EXPECT_EQ(slice["set"], false);
  EXPECT_EQ(slice["same_on_all_ranks"], true);
  EXPECT_GE(json["machine"]["usable_units"], 1);
  EXPECT_TRUE(json["transports"].empty());
  EXPECT_TRUE(json["environment_error"].is_null());
}

TEST(HoringInfo, WarnsOfVariablesThatNobodyReads) {
  const Outcome outcome = runInfo({"--json", "--ranks", "0"}, {"HORING_SLICE=3"});
  EXPECT_EQ(outcome.code, 1);
  const Json warnings = Json::parse(outcome.output)["environment_warnings"];
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].get<std::string>().find("did you mean HORING_SLICE_BYTES?"), std::string::npos)
      << warnings;
  EXPECT_NE(runInfo({"--ranks", "0"}, {"HORING_SLICE=3"}).output.find("HORING_SLICE_BYTES?"),
            std::string::npos);
}

TEST(HoringInfo, TriesTheTransports) {
  const Outcome outcome = runInfo({"--json", "--ranks", "3"}, {"HORING_SOCKET_IFNAME=lo"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  for (const char* name : {"shm", "socket"}) {
    const Json transport = named(json["transports"], name);
    EXPECT_EQ(transport["usable"], true) << transport;
    EXPECT_GT(transport["communicator_bytes_per_rank"], 1000) << transport;
  }
}

// With links of both kinds to every other rank.
TEST(HoringInfo, FindsThatACommunicatorOfSixteenRanksTakesAtMost64MiB) {
  const Outcome outcome = runInfo({"--json", "--ranks", "16"}, {"HORING_SOCKET_IFNAME=lo"});
  const Json facts = Json::parse(outcome.output);
  for (const char* name : {"shm", "socket"}) {
    const Json transport = named(facts["transports"], name);
    EXPECT_EQ(transport["usable"], true) << transport;
    EXPECT_LE(transport["communicator_bytes_per_rank"], 64 << 20) << transport;
  }
  EXPECT_GT(named(facts["transports"], "socket")["communicator_bytes_per_rank"], 16 << 20);
  // Slots in shared memory take their memory when they are first used.
  const Json shm = facts["node_shm"][3];
  ASSERT_EQ(shm["ranks"], 16) << shm;
  const uint64_t all = shm["collectives_bytes"].get<uint64_t>() + shm["messages_bytes"].get<uint64_t>();
  EXPECT_GT(all / 16, 16u << 20) << shm;
  EXPECT_LE(all / 16, 64u << 20) << shm;
  EXPECT_LE(facts["gpu_bytes_per_rank"], 32 << 20);
}

TEST(HoringInfo, TriesRdmaOrSaysThatThereIsNone) {
  const Json verbs =
      named(Json::parse(runInfo({"--json"}, {"HORING_SOCKET_IFNAME=lo"}).output)["transports"], "verbs");
  if (std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "this machine has RDMA";
  EXPECT_EQ(verbs["usable"], false);
  EXPECT_NE(verbs["error"].get<std::string>().find("no RDMA device"), std::string::npos) << verbs;
}

TEST(HoringInfo, ShowsRdmaPortsAndUsesThem) {
  HORING_NEEDS_RDMA_MACHINE();
  const Json facts = Json::parse(runInfo({"--json"}, {"HORING_SOCKET_IFNAME=lo"}).output);
  ASSERT_EQ(facts["rdma_ports"].size(), 4u) << facts["rdma_ports"];
  const auto first = facts["rdma_ports"][0].get<std::string>();
  EXPECT_EQ(first.find("rxe0 port 1: RoCE, "), 0u) << first;
  EXPECT_NE(first.find("ACTIVE"), std::string::npos) << first;
  EXPECT_EQ(named(facts["transports"], "verbs")["usable"], true) << facts["transports"];
}

TEST(HoringInfo, SaysWhyATransportIsNotUsable) {
  const Outcome outcome = runInfo({"--json"}, {"HORING_SHM_DIR=/proc/nonexistent"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json shm = named(Json::parse(outcome.output)["transports"], "shm");
  EXPECT_EQ(shm["usable"], false);
  const std::string error = shm["error"];
  EXPECT_NE(error.find("/proc/nonexistent"), std::string::npos) << error;
  EXPECT_EQ(error.rfind("system error: "), 0u) << "once: " << error;
}

TEST(HoringInfo, EndsWithOneWhenTheEnvironmentIsWrongButStillShowsIt) {
  const Outcome outcome = runInfo({}, {"HORING_ALGO=bogus"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.output.find("HORING_ALGO=bogus"), std::string::npos);
  EXPECT_NE(outcome.output.find("HORING_SHM_DIR"), std::string::npos);
}

TEST(HoringInfo, IsReadableForPeople) {
  const Outcome outcome = runInfo({"--ranks", "0"});
  ASSERT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output.find("horing 0.1.0"), 0u);
  for (const ConfigVariable& variable : configVariables()) {
    const size_t at = outcome.output.find(variable.help);
    EXPECT_EQ(at == std::string::npos, variable.for_tests) << variable.name;
    if (variable.for_tests) continue;
    const std::string_view rest = std::string_view(outcome.output).substr(at + std::strlen(variable.help));
    EXPECT_EQ(rest.starts_with(" The same on all ranks.\n"), variable.sharing == Sharing::kShared)
        << variable.name;
  }
  EXPECT_NE(outcome.output.find("HORING_IB_QPS_PER_CONNECTION  "), std::string::npos) << "run into its value";
}

TEST(HoringInfo, ShowsWhatBecomesOfNcclsVariables) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "nccl.conf").string();
  std::ofstream(file) << "# of this site\nNCCL_IB_TC = 41 # lossless\nNCCL_IB_SL=2\n";
  const Outcome outcome = runInfo({"nccl"}, {"NCCL_CONF_FILE=" + file, "NCCL_PROTO=LL", "NCCL_IB_SL=3",
                                             "NCCL_SOCKET_IFNAME=eth", "HORING_SOCKET_IFNAME=ib"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* line :
       {"NCCL_PROTO=LL (environment): changes nothing: horing chooses this itself\n",
        "NCCL_IB_SL=3 (environment): HORING_IB_SL=3\n",
        "NCCL_SOCKET_IFNAME=eth (environment): HORING_SOCKET_IFNAME=ib, which is set, counts"})
    EXPECT_NE(outcome.output.find(line), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("NCCL_IB_TC=41 (" + file + "): HORING_IB_TC=41\n"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(runInfo({"nccl", "--check"}).code, 2);
}

TEST(HoringInfo, RefusesAWrongCommandLine) {
  EXPECT_EQ(runInfo({"--bogus"}).code, 2);
  EXPECT_EQ(runInfo({"--ranks", "1000"}).code, 2);
  EXPECT_EQ(runInfo({"--help"}).code, 0);
}

TEST(HoringInfo, PrintsATableThatItTakesBack) {
  const Outcome built_in = runInfo({"selection"});
  ASSERT_EQ(built_in.code, 0) << built_in.errors;
  EXPECT_NE(built_in.output.find("ho_ring"), std::string::npos);
  const std::string path = ::testing::TempDir() + "horing_info_selection.txt";
  std::ofstream(path) << built_in.output;
  EXPECT_EQ(runInfo({"selection"}, {"HORING_SELECTION=" + path}).output,
            "# the table in " + path + built_in.output.substr(built_in.output.find('\n')));
  std::ofstream(path) << "* * * * * rong\n";
  const Outcome wrong = runInfo({"selection"}, {"HORING_SELECTION=" + path});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.errors.find("line 1: expected an algorithm"), std::string::npos) << wrong.errors;
  std::remove(path.c_str());
}

TEST(HoringInfo, ExplainsWhoChoseAndWhatWouldBeNext) {
  const Outcome plain = runInfo({"selection", "--explain", "2x4"});
  ASSERT_EQ(plain.code, 0) << plain.errors;
  EXPECT_NE(plain.output.find("# 2 nodes of 4 ranks, a core for each"), std::string::npos) << plain.output;
  EXPECT_NE(plain.output.find("of the built-in table"), std::string::npos);
  EXPECT_EQ(plain.output.find("HORING_ALGO"), std::string::npos);
  // For a forced algorithm the row is ignored, and its algorithm is the best other if it is the fastest of the rest.
  const Outcome forced = runInfo({"selection", "--explain", "2x4"}, {"HORING_ALGO=all_reduce=ring"});
  for (size_t at = 0; (at = forced.output.find("\nall_reduce ", at)) != std::string::npos; ++at) {
    const std::string row = forced.output.substr(at + 1, forced.output.find('\n', at + 1) - at - 1);
    EXPECT_NE(row.find(" ring "), std::string::npos) << row;
    EXPECT_TRUE(row.ends_with("HORING_ALGO")) << row;
    EXPECT_EQ(std::count(row.begin(), row.end(), 'u') >= 2, true) << "two times: " << row;
  }
  EXPECT_NE(forced.output.find("\nreduce_scatter"), std::string::npos);
  EXPECT_NE(
      runInfo({"selection"}, {"HORING_ALGO=ring"}).output.find("# HORING_ALGO=ring counts before the rows"),
      std::string::npos);
  EXPECT_NE(runInfo({"selection", "--explain", "1x4"}).output.find("where ranks reach each other's buffers"),
            std::string::npos);
  const auto hasUnequal = [&](const char* job, const std::string& setting, const std::string& from = "256K") {
    const Outcome outcome = runInfo({"selection", "--explain", job}, {"HORING_CACHE_DIR=", setting});
    return outcome.output.find(
               "Where those of nodes differ by more than a fifth, ho_shares serves all_reduce from " + from +
               " on") != std::string::npos;
  };
  EXPECT_TRUE(hasUnequal("3x2", "HORING_CALIBRATE=auto"));
  EXPECT_TRUE(hasUnequal("16x2", "HORING_CALIBRATE=auto", "512K"));
  EXPECT_FALSE(hasUnequal("2x2", "HORING_CALIBRATE=auto"));
  EXPECT_FALSE(hasUnequal("3x2", "HORING_CALIBRATE=0"));
  EXPECT_FALSE(hasUnequal("3x2", "HORING_REPRODUCIBLE=1"));
  for (const char* job : {"8x2", "9x2"}) {
    const Outcome outcome = runInfo({"selection", "--explain", job, "--shared-cores"}, {"HORING_CACHE_DIR="});
    EXPECT_EQ(outcome.output.find("ho_shares serves") != std::string::npos, job == std::string("8x2"));
  }
  for (const char* wrong :
       {"2", "2x", "x4", "0x4", "2x4x", "64x64", "4,", ",4", "4,0", "4,3x2", "2x4,3", "1000,25"})
    EXPECT_EQ(runInfo({"selection", "--explain", wrong}).code, 2) << wrong;
}

TEST(HoringInfo, ExplainsJobsWhoseNodesDifferInRanks) {
  const auto printed = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "selection");
    const Outcome outcome = runInfo(arguments, {"HORING_CACHE_DIR="});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.output;
  };
  const auto rowsOf = [](const std::string& text) {
    std::vector<std::string> rows;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (!line.empty() && line[0] != '#') rows.push_back(line);
    return rows;
  };
  EXPECT_TRUE(printed({"--explain", "4,3"}).starts_with("# 2 nodes of 4,3 ranks, a core for each\n"));
  EXPECT_EQ(printed({"--explain", "4,4"}), printed({"--explain", "2x4"}));
  // The row that is named has the algorithm, whatever rows of algorithms for equal nodes come before it.
  const std::vector<std::string> table = rowsOf(printed({}));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--explain", "4,3"}, {"--explain", "4,3", "--shared-cores"}})
    for (const std::string& row : rowsOf(printed(arguments))) {
      std::istringstream words(row);
      std::string collective, bytes, algorithm;
      words >> collective >> bytes >> algorithm;
      EXPECT_FALSE(algorithm.starts_with("ho_leaders")) << "it needs groups of one size: " << row;
      const size_t named = row.find(" row ");
      ASSERT_NE(named, std::string::npos) << row;
      const size_t number = std::stoul(row.substr(named + 5));
      ASSERT_LE(number, table.size());
      EXPECT_NE(table[number - 1].find(" " + algorithm), std::string::npos) << row << "\n"
                                                                            << table[number - 1];
    }
}

TEST(HoringInfo, ExplainsByTheTableThatIsKeptForSuchJobs) {
  const TemporaryFolder parent;
  const KeptTables kept(parent.path() / "kept");
  const KeptFor jobs = {keptShapeText({2, 4, RanksPerCore::kMore}, {4, 4}) + "by socket", keptVersions()};
  ASSERT_TRUE(kept.keep(jobs, "all_reduce * * * * ring\n").ok());
  const auto explain = [&](std::vector<std::string> arguments,
                           const char* setting = "HORING_SELECTION=auto") {
    arguments.insert(arguments.begin(), {"selection", "--explain"});
    const Outcome outcome = runInfo(arguments, {"HORING_CACHE_DIR=" + kept.folder(), setting});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.output;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string found = explain({"2x4", "--shared-cores"}), row = "row 1 of the kept table";
  EXPECT_TRUE(has(found, "# the kept table: " + kept.pathFor(jobs) + " for " + jobs.job)) << found;
  EXPECT_TRUE(has(found, "\n# only a job that is the same in all of this takes it")) << found;
  EXPECT_TRUE(has(found, row)) << found;
  EXPECT_FALSE(has(found, "a job measures first")) << found;
  EXPECT_FALSE(has(explain({"2x4"}), row)) << "of jobs with a core for each rank";
  EXPECT_FALSE(has(explain({"2x2", "--shared-cores"}), row));
  EXPECT_FALSE(has(explain({"2x4", "--shared-cores"}, "HORING_SELECTION=table"), row));
  ASSERT_TRUE(kept.keep({jobs.job, "model 0"}, "all_reduce * * * * ring\n").ok());
  const std::string outdated = explain({"2x4", "--shared-cores"});
  EXPECT_TRUE(has(outdated, "# not used: " + kept.pathFor(jobs) + ", it is out of date")) << outdated;
  EXPECT_FALSE(has(outdated, row)) << outdated;
}

// Without latency what moves the fewest bytes is the best for every size; where only latency counts, few steps are.
TEST(HoringInfo, PrintsWhatTheModelWouldChoose) {
  const std::string path = ::testing::TempDir() + "horing_info_machine.txt";
  const auto selection = [&](const char* inter_latency_us) {
    std::ofstream(path) << "nodes = 4\nranks_per_node = 2\ninter_gbytes_per_s = 1\ninter_latency_us = "
                        << inter_latency_us << "\n";
    const Outcome outcome = runInfo({"selection"}, {"HORING_SELECTION=model", "HORING_CALIBRATE=" + path});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("#   nodes = 4"), std::string::npos) << outcome.output;
    std::ofstream(path + ".table") << outcome.output;
    EXPECT_EQ(runInfo({"selection"}, {"HORING_SELECTION=" + path + ".table"}).code, 0);
    return outcome.output;
  };
  EXPECT_EQ(selection("100000").find("all_reduce     4       2              *            ho_ring "),
            std::string::npos);
  EXPECT_NE(selection("0"), selection("100000"));
  const Outcome by_default = runInfo({"selection"}, {"HORING_CALIBRATE=" + path});
  EXPECT_NE(by_default.output.find("#   nodes = 4"), std::string::npos)
      << by_default.output << by_default.errors;
  EXPECT_NE(
      runInfo({"selection"}, {"HORING_SELECTION=model", "HORING_CALIBRATE=1"}).errors.find("horing-tune -o"),
      std::string::npos);
  EXPECT_NE(runInfo({"selection"}, {"HORING_SELECTION=model"}).errors.find("horing-tune -o"),
            std::string::npos);
  EXPECT_NE(runInfo({"selection"}, {"HORING_SELECTION=model", "HORING_CALIBRATE=0"})
                .errors.find("needs to know the machine"),
            std::string::npos);
  std::remove(path.c_str());
  std::remove((path + ".table").c_str());
}

// What a rank leaves that has replayed graphs: of two parts of a plan, and of another.
void writeReplays(const std::string& folder, int rank, uint64_t runs) {
  CallLog calls, launches(kFirstLaunch);
  FlightRecorder& recorder = launches.recorder();
  recorder.begin({});
  recorder.end(0, 1, horing::Outcome::kDone);
  const auto part = [](uint64_t count, uint32_t number) {
    return ReplayRuns{
        count, count, {.collective = static_cast<uint32_t>(Collective::kAllReduce), .part = number}};
  };
  launches.answerReplaysFrom([&] { return std::vector{part(runs, 0), part(runs, 1), part(4, 2)}; });
  ASSERT_TRUE(writeFlightFile({folder, "job", rank, 3}, calls, launches, ManualClock(), {}).ok());
}

// Runs that numbers have begun anew since, too.
TEST(HoringInfo, NamesWhoNeverReplayedAGraph) {
  const uint64_t all = uint64_t{ReplayNumber::kRunMask} + 1;
  for (const uint64_t before : {uint64_t{0}, all - 7, all}) {
    const TemporaryFolder folder;
    std::vector<std::string> command = {"trace"};
    for (const int rank : {0, 1, 2}) writeReplays(folder.path().string(), rank, before + (rank == 1 ? 7 : 9));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      command.push_back(entry.path().string());
    const Outcome merged = runInfo(command);
    EXPECT_EQ(merged.code, 0) << merged.errors;
    EXPECT_NE(merged.output.find("verdict on kernels: all ranks completed their 1 launches\n"),
              std::string::npos)
        << merged.output;
    const std::string verdict = "verdict on replays: rank 1 never called all_reduce run #" +
                                std::to_string((before + 7) % all) + " in a graph\n";
    EXPECT_NE(merged.output.find(verdict), std::string::npos) << merged.output;
    EXPECT_EQ(merged.output.find("on replays", merged.output.find(verdict) + verdict.size()),
              std::string::npos)
        << merged.output;
  }
}

}  // namespace
}  // namespace horing::test
