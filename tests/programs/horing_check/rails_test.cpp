// The adapters of a node, and what is found with one of each node alone, beside what is found with all.
#include "horing_check/rails.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../../temporary_folder.h"
#include "horing_check/report.h"
#include "simulated_cluster.h"

namespace horing::check {
namespace {

constexpr int kRailNodes = 8;

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Two rails; `slow` has one of them at this share on node 5.
Report railReport(const std::vector<double>& shares) {
  Report report;
  report.figures.nodes = kRailNodes;
  for (int node = 0; node < kRailNodes; ++node) report.names.push_back("node" + std::to_string(node));
  double sum = 0;
  std::vector<Verdict> alone;
  for (size_t rail = 0; rail < shares.size(); ++rail) {
    SimulatedCluster cluster(kRailNodes, static_cast<unsigned>(rail + 1));
    cluster.slowSender(5, shares[rail]);
    sum += shares[rail];
    alone.push_back(cluster.check());
    report.rails.push_back(
        {std::vector<std::string>(kRailNodes, "eth" + std::to_string(rail)), alone.back(), 7, ""});
  }
  SimulatedCluster all(kRailNodes, 9);
  all.slowSender(5, sum / static_cast<double>(shares.size()));
  report.verdict = all.check();
  report.figures = all.figures();
  addRails(report.verdict, alone);
  return report;
}

TEST(Rails, AreNamedInPlaceOfTheNode) {
  const Report report = railReport({1, 0.5});
  const std::string text = verdictText(report);
  EXPECT_TRUE(mentions(text, "\n  node5 eth1 sends at 50 % of the cluster's rate on that rail (")) << text;
  EXPECT_FALSE(mentions(text, "node5 sends")) << text;
  EXPECT_TRUE(mentions(text, "\n  rail 1 (eth1) alone: median ")) << text;
  EXPECT_TRUE(mentions(text, "good: 7 of 8")) << text;
  const std::string json = reportToJson(report);
  EXPECT_TRUE(mentions(json, "\"rail\": 1,")) << json.substr(0, 2000);
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
}

// A tenth on one of two is a twentieth of the node, too little to be seen with both.
TEST(Rails, AreNamedIfTheNodeIsHardlySlower) {
  const Report report = railReport({0.88, 1});
  EXPECT_EQ(blamed(report.verdict), "5 sends");
  EXPECT_EQ(report.verdict.findings.front().rail, 0);
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
}

TEST(Rails, AreNotNamedIfAllAreSlow) {
  const std::string text = verdictText(railReport({0.5, 0.5}));
  EXPECT_TRUE(mentions(text, "\n  node5 sends at 50 % of the cluster's rate (")) << text;
  EXPECT_FALSE(mentions(text, "node5 eth")) << text;
}

TEST(Rails, OfAGoodClusterAreGood) {
  const Report report = railReport({1, 1});
  EXPECT_TRUE(report.verdict.findings.empty());
  EXPECT_EQ(outcomeOf(report), Outcome::kGood);
}

// As the library chooses them (transport/verbs).
TEST(Rails, AreTheActivePortsThatTheSettingAllows) {
  const test::TemporaryFolder folder;
  const auto makePort = [&](const char* device, const char* number, const char* state) {
    const std::filesystem::path port = folder.path() / device / "ports" / number;
    std::filesystem::create_directories(port);
    std::ofstream(port / "state") << state << "\n";
  };
  makePort("mlx5_0", "1", "4: ACTIVE");
  makePort("mlx5_1", "1", "1: DOWN");
  makePort("mlx5_2", "1", "4: ACTIVE");
  makePort("mlx5_2", "2", "4: ACTIVE");
  makePort("mlx5_20", "1", "4: ACTIVE");
  using Names = std::vector<std::string>;
  const auto ports = [&](const char* chosen) { return rdmaPorts(chosen, folder.path()); };
  EXPECT_EQ(ports(""), (Names{"mlx5_0", "mlx5_2:1", "mlx5_2:2", "mlx5_20"}));
  EXPECT_EQ(ports("mlx5_2"), (Names{"mlx5_2:1", "mlx5_2:2", "mlx5_20"}));
  EXPECT_EQ(ports("=mlx5_2:2,mlx5_0"), (Names{"mlx5_0", "mlx5_2:2"}));
  EXPECT_EQ(ports("^mlx5_2:1"), (Names{"mlx5_0", "mlx5_2:2"}));
  EXPECT_EQ(ports("^mlx5_0"), (Names{"mlx5_2:1", "mlx5_2:2", "mlx5_20"}));
  EXPECT_EQ(ports("=mlx5_1"), Names());
  EXPECT_EQ(ports("mlx5_0:x"), Names());
}

}  // namespace
}  // namespace horing::check
