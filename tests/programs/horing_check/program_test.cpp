// horing-check as a user runs it, on emulated nodes where there may be some.
#include "program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "../../temporary_folder.h"

namespace horing::test {
namespace {

std::string readFile(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A rate for each node, or the same for four.
Outcome checkNodes(const std::string& rates, const std::vector<std::string>& options = {}) {
  const auto listed = static_cast<int>(std::ranges::count(rates, ',')) + 1;
  const std::string nodes = std::to_string(listed > 1 ? listed : 4);
  std::vector<std::string> command = {
      HORING_RUN_PROGRAM, "-n", nodes, "--nodes",           nodes, "--rate", rates,
      "--timeout",        "90", "--",  HORING_CHECK_PROGRAM};
  command.insert(command.end(), options.begin(), options.end());
  return runProgram(command);
}

// All is measured within it, in shorter messages than by default.
constexpr const char* kShortTime = "20s";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(HoringCheck, FindsAPlantedAdapter) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::filesystem::path json = folder.path() / "c.json", svg = folder.path() / "c.svg",
                              hosts = folder.path() / "hosts";
  const Outcome outcome = checkNodes(
      "200,200,80,200", {"--json", json.string(), "--svg", svg.string(), "--hostfile", hosts.string()});
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, "node2 sends at ")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "good: 3 of 4 nodes: node[0-1,3]\n")) << outcome.output;
  EXPECT_EQ(readFile(hosts), "node0\nnode1\nnode3\n");
  EXPECT_TRUE(contains(readFile(svg), "To be looked at: node2"));
  const auto report = nlohmann::json::parse(readFile(json));
  ASSERT_EQ(report["findings"].size(), 2u) << report["findings"];
  for (const auto& finding : report["findings"]) {
    EXPECT_EQ(finding["node"], "node2");
    EXPECT_EQ(finding["quantity"], "rate");
    EXPECT_NEAR(finding["factor"].get<double>(), 0.4, 0.08);
  }
  for (const auto& sample : report["samples"]) EXPECT_GT(sample["segments"], 100) << sample;
  EXPECT_TRUE(contains(outcome.output, "; node2 explains ")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "; without node2: ")) << outcome.output;
  const auto& times = report["collectives"]["times"];
  ASSERT_EQ(times.size(), 3u) << report["collectives"];
  for (const auto& time : times) {
    const double seconds = time["seconds"], expected = time["expected_seconds"];
    const double lost = seconds - expected;
    EXPECT_GT(seconds, 1.5 * expected) << time;
    EXPECT_GT(time["expected_seconds_with_slow_nodes"].get<double>() - expected, 0.5 * lost) << time;
    const auto& good = time["good_nodes"];
    EXPECT_LT(good["seconds"].get<double>(), 2 * good["expected_seconds"].get<double>()) << time;
  }
}

TEST(HoringCheck, FindsASlowAdapterOfTwo) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "c.json").string();
  const Outcome outcome = runProgram({HORING_RUN_PROGRAM, "-n", "4", "--nodes", "4", "--rate", "200",
                                      "--rails", "2", "--timeout", "90", "--", "sh", "-c",
                                      "[ $RANK != 1 ] || tc class change dev r1 parent 1: classid 1:1 htb "
                                      "rate 80mbit burst 48000b ceil 84mbit "
                                      "cburst 9014b quantum 60000; exec " HORING_CHECK_PROGRAM " --json " +
                                          json});
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, "\n  node1 r1 sends at ")) << outcome.output;
  const auto report = nlohmann::json::parse(readFile(json));
  ASSERT_EQ(report["findings"].size(), 1u) << report["findings"];
  EXPECT_EQ(report["findings"][0]["rail"], 1);
  EXPECT_NEAR(report["findings"][0]["factor"].get<double>(), 0.4, 0.08);
  EXPECT_EQ(report["rails"].size(), 2u);
}

TEST(HoringCheck, FindsNothingWhereNothingIsPlanted) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "c.json").string();
  const Outcome outcome = checkNodes("200", {"--time", kShortTime, "--json", json});
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, "verdict: nothing is slower than the others")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "facts: ")) << outcome.output;
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter"})
    EXPECT_TRUE(contains(outcome.output, std::string("\n  ") + collective + ": ")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "\ninside nodes: a core copies ")) << outcome.output;
  EXPECT_FALSE(contains(outcome.output, "clock of ")) << outcome.output;  // all have the same
  const auto report = nlohmann::json::parse(readFile(json));
  ASSERT_EQ(report["inside"].size(), 4u);
  for (const auto& node : report["inside"]) {
    EXPECT_GT(node["copy_bytes_per_s"], 1e8) << node;
    EXPECT_GT(node["fold_bytes_per_s"], 1e8) << node;
    EXPECT_TRUE(node["shared_memory_bytes_per_s"].is_null()) << "a node has one rank: " << node;
    EXPECT_TRUE(node["running_share"].is_null()) << "the nodes share this machine: " << node;
  }
  ASSERT_EQ(report["clocks"].size(), 4u);
  for (const auto& clock : report["clocks"]) EXPECT_LT(clock["uncertainty_seconds"], 1) << clock;
  EXPECT_FALSE(contains(outcome.output, "explain") || contains(outcome.output, "without")) << outcome.output;
}

// Four nodes of one kind and four of another, of which one is slow for its kind.
TEST(HoringCheck, ComparesEachNodeWithWhatIsExpectedOfItsKind) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "c.json").string();
  const std::vector<std::string> options = {"--time", kShortTime, "--expect", "node[0-3]=200,node[4-7]=100",
                                            "--json", json};
  const Outcome clean = checkNodes("200,200,200,200,100,100,100,100", options);
  EXPECT_EQ(clean.code, 0) << clean.output << clean.errors;
  EXPECT_TRUE(contains(clean.output, "scaled to the fastest kind")) << clean.output;
  for (const auto& time : nlohmann::json::parse(readFile(json))["collectives"]["times"])
    EXPECT_LT(time["seconds"].get<double>(), 1.5 * time["expected_seconds"].get<double>()) << time;
  const Outcome slow = checkNodes("200,100,200,200,100,100,100,100", options);
  EXPECT_EQ(slow.code, 1) << slow.output << slow.errors;
  EXPECT_TRUE(contains(slow.output, "good: 7 of 8 nodes: node[0,2-7]\n")) << slow.output;
  const auto findings = nlohmann::json::parse(readFile(json))["findings"];
  for (const auto& finding : findings) EXPECT_EQ(finding["node"], "node1");
  const Outcome unknown = checkNodes("200", {"--expect", "node[0-2]=200"});
  EXPECT_EQ(unknown.code, 3) << unknown.output;
  EXPECT_TRUE(contains(unknown.errors, "--expect has no rate for node3")) << unknown.errors;
}

TEST(HoringCheck, ComparesNoOtherAlgorithmThanRings) {
  const Outcome outcome =
      runProgram({HORING_RUN_PROGRAM, "-n", "2", "--timeout", "60", "--", "sh", "-c",
                  "HORING_ALGO=direct HORING_GROUP=$RANK exec " HORING_CHECK_PROGRAM " --time 20s"});
  EXPECT_LE(outcome.code, 1) << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, "collectives: not measured: HORING_ALGO is set")) << outcome.output;
}

TEST(HoringCheck, SoaksAsLongAsItIsToldAndComparesWithAnEarlierRun) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::string before = (folder.path() / "before.json").string();
  // At more than this, busy processors may be slower than the adapters, and the second run is hardly slower than the first.
  const Outcome fast = checkNodes("200", {"--soak", "8s", "--json", before});
  EXPECT_TRUE(contains(fast.output, " compared byte by byte, 0 wrong; ")) << fast.output << fast.errors;
  const Outcome slow = checkNodes("80", {"--time", kShortTime, "--baseline", before});
  EXPECT_EQ(slow.code, 1) << slow.output;
  EXPECT_TRUE(contains(slow.output, "  the median of all nodes is ")) << slow.output;
  const Outcome wrong = checkNodes("200", {"--baseline", "/nowhere"});
  EXPECT_EQ(wrong.code, 3);
  EXPECT_TRUE(contains(wrong.errors, "/nowhere is not what --json writes")) << wrong.errors;
}

// Ends the check's process on these nodes, a pattern of the shell, in the middle.
Outcome loseNodes(const std::string& lost, const std::string& json, const char* signal = "KILL") {
  return runProgram({HORING_RUN_PROGRAM, "-n", "6", "--nodes", "6", "--rate", "200", "--keep-going",
                     "--timeout", "60", "--", "sh", "-c",
                     HORING_CHECK_PROGRAM " --time 25s --json " + json + " & job=$!; case $RANK in " + lost +
                         ") sleep 5; kill -" + signal + " $job; [ " + signal +
                         " = KILL ] || { sleep 12; kill -9 $job; } ;; esac; wait $job"});
}

void expectLost(const Outcome& outcome, const std::string& lost, const std::string& good) {
  EXPECT_NE(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.output, "the check ended early: " + lost + " not answer any more: "))
      << outcome.output << outcome.errors;
  // On a busy machine they may be lost before the first round has ended: then none is known to be good.
  const bool is_measured = !contains(outcome.output, "between nodes: nothing was measured\n");
  EXPECT_EQ(contains(outcome.output, "\ngood: "), is_measured) << outcome.output;
  EXPECT_EQ(contains(outcome.output, "\ngood: " + good + "\n"), is_measured) << outcome.output;
  EXPECT_FALSE(contains(outcome.output, "verdict: nothing")) << outcome.output;
}

TEST(HoringCheck, NamesEachNodeThatIsLost) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "c.json").string();
  expectLost(loseNodes("1", json), "node1 does", "5 of 6 nodes: node[0,2-5]");
  expectLost(loseNodes("1|3|4", json), "node[1,3-4] do", "3 of 6 nodes: node[0,2,5]");
  EXPECT_EQ(nlohmann::json::parse(readFile(json))["missing"],
            (std::vector<std::string>{"node1", "node3", "node4"}));
  expectLost(loseNodes("2", json, "STOP"), "node2 does", "5 of 6 nodes: node[0-1,3-5]");
}

// Two ranks of each node: the second ones take no part.
TEST(HoringCheck, LeavesOutWhomAFirewallCutsOff) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::filesystem::path json = folder.path() / "c.json";
  // Node 3 answers nothing that node 1 sends.
  const std::string cut =
      "[ $RANK = 6 ] && at=$(ip -4 -o addr show scope global | awk '{print $4; exit}') && "
      "ip route add "
      "blackhole ${at%.*}.2; exec \"$@\"";
  const Outcome outcome = runProgram({HORING_RUN_PROGRAM, "-n", "8", "--nodes", "4", "--rate", "200",
                                      "--timeout", "90", "--", "bash", "-c", cut, "-", HORING_CHECK_PROGRAM,
                                      "--time", kShortTime, "--json", json.string()});
  EXPECT_EQ(outcome.code, 1) << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, "node3 was left out: no connection between it and node1 came about\n"))
      << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "good: 3 of 4 nodes: node[0-2]\n")) << outcome.output;
  const auto report = nlohmann::json::parse(readFile(json));
  EXPECT_EQ(report["do_not_reach_each_other"], nlohmann::json::parse(R"([["node1", "node3"]])"));
  EXPECT_EQ(report["left_out"], nlohmann::json::parse(R"(["node3"])"));
  EXPECT_EQ(report["findings"].size(), 0u) << report["findings"];
}

TEST(HoringCheck, IsReportedByAnotherNodeIfTheFirstIsLost) {
  HORING_NEEDS_NODES();
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "c.json").string();
  const Outcome outcome = loseNodes("0|1", json);
  expectLost(outcome, "node[0-1] do", "4 of 6 nodes: node[2-5]");
  EXPECT_TRUE(contains(outcome.output, "node2 reports in place of node0, and writes no files\n"))
      << outcome.output;
  EXPECT_EQ(outcome.output.find(" reports in place"), outcome.output.rfind(" reports in place"))
      << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(json)) << readFile(json);
}

// The first round takes longer than the time: messages are not smaller than 64 KiB, half a second each. Only the rank that reports fails:
// launchers end a job when a rank fails, and with it the report.
TEST(HoringCheck, EndsInItsTimeThoughAMessageTakesLonger) {
  HORING_NEEDS_NODES();
  const Outcome outcome = runProgram(
      {HORING_RUN_PROGRAM, "-n", "4", "--nodes", "4", "--rate", "1", "--timeout", "60", "--", "sh", "-c",
       "begin=$(date +%s%N); " HORING_CHECK_PROGRAM
       " --time 2s; code=$?; echo took $(( ($(date +%s%N) - begin) / 1000000 )) ms, code $code"});
  const std::string all = outcome.output + outcome.errors;
  std::istringstream words(outcome.output);
  std::vector<int> codes;
  for (std::string word; words >> word;) {
    int took_ms = 0, code = 0;
    if (word != "took" || !(words >> took_ms >> word >> word >> code)) continue;
    codes.push_back(code);
    EXPECT_LT(took_ms, 5000) << "--time and three seconds";
  }
  std::ranges::sort(codes);
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0, 3})) << all;
  EXPECT_TRUE(contains(outcome.output, "the check ended early: the time was ")) << all;
  EXPECT_FALSE(contains(outcome.output, "to be looked at first")) << all;
  EXPECT_FALSE(contains(outcome.output, "verdict: ")) << all;
}

// Several ranks of a node, of which one measures; and no emulated nodes.
TEST(HoringCheck, MeasuresWithOneRankOfEachNode) {
  const Outcome outcome = runProgram({HORING_RUN_PROGRAM, "-n", "4", "--timeout", "60", "--", "sh", "-c",
                                      "HORING_GROUP=$((RANK / 2)) exec " HORING_CHECK_PROGRAM " --time 4s"});
  EXPECT_LE(outcome.code, 1) << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, ": 2 nodes, ")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "2 of 2 directions measured")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, ", and two ranks move ")) << outcome.output;
}

// Two NUMA nodes and four GPUs that there are not.
TEST(HoringCheck, MeasuresWhatMovesInsideNodes) {
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "c.json").string();
  const Outcome outcome = runProgram(
      {HORING_RUN_PROGRAM, "-n", "2", "--timeout", "90", "--", "sh", "-c",
       "export LD_LIBRARY_PATH=" HORING_FAKE_CUDA_FOLDER
       " HWLOC_SYNTHETIC='pack:2 numa:1 core:1 pu:1' HORING_GROUP=$RANK; exec " HORING_CHECK_PROGRAM
       " --time 30s --json " +
           json});
  EXPECT_LE(outcome.code, 1) << outcome.errors;
  for (const char* const part :
       {"\n  memory between NUMA nodes, across packages: ", "\n  GPU to GPU: ", "\n  GPU to host: "})
    EXPECT_TRUE(contains(outcome.output, part)) << part << " is not in\n" << outcome.output << outcome.errors;
  // A busy machine may need longer than it has.
  const bool is_complete = !contains(outcome.output, "\n  not measured to the end on ");
  const auto paths = nlohmann::json::parse(readFile(json))["inside_paths"];
  if (is_complete) {
    EXPECT_EQ(paths.size(), 2u * (2 + 8 + 12)) << outcome.output;
  }
  for (const auto& path : paths) EXPECT_FALSE(path["wrong"]) << path;
}

TEST(HoringCheck, SaysWhatIsWrong) {
  const Outcome alone =
      runProgram({HORING_RUN_PROGRAM, "-n", "2", "--timeout", "60", "--", HORING_CHECK_PROGRAM});
  EXPECT_EQ(alone.code, 3);
  EXPECT_TRUE(contains(alone.errors, "all 2 ranks are on one node")) << alone.errors;
  const Outcome unwritable =
      runProgram({HORING_RUN_PROGRAM, "-n", "2", "--timeout", "60", "--", "sh", "-c",
                  "HORING_GROUP=$RANK exec " HORING_CHECK_PROGRAM " --svg /nowhere/at/all"});
  EXPECT_EQ(unwritable.code, 3);
  EXPECT_TRUE(contains(unwritable.errors, "/nowhere/at/all")) << unwritable.errors;
  EXPECT_EQ(unwritable.output, "") << "measured before it looked";
  for (const char* time : {"0", "soon", "0.1s"})
    EXPECT_EQ(runProgram({HORING_CHECK_PROGRAM, "--time", time}).code, 2);
  EXPECT_EQ(runProgram({HORING_CHECK_PROGRAM, "--quick"}).code, 2);
  const Outcome expect = runProgram({HORING_CHECK_PROGRAM, "--expect", "node[0-3]"});
  EXPECT_EQ(expect.code, 2);
  EXPECT_TRUE(contains(expect.errors, "'node[0-3]' does not say what is expected")) << expect.errors;
}

}  // namespace
}  // namespace horing::test
