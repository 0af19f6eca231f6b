// `horing-paro plan` and `table`, run as a user runs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"

namespace horing::test {
namespace {

Outcome horingParo(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HORING_PARO_PROGRAM);
  return runProgram(arguments);
}

TEST(HoringParo, PlansThePapersSixtyFiveBillion) {
  const Outcome run = horingParo({"plan", "--params", "65e9", "--nodes", "4", "--ranks", "8", "--accumulate",
                                  "10", "--memory", "80GB", "--cost", "flat-ring", "--json"});
  ASSERT_EQ(run.code, 0) << run.errors;
  const nlohmann::json plan = nlohmann::json::parse(run.output);
  EXPECT_EQ(plan["chosen"], "IIG");
  EXPECT_EQ(plan["strategies"].size(), 14u);
  for (const auto& strategy : plan["strategies"]) {
    const std::string name = strategy["name"];
    EXPECT_EQ(strategy["fits"].get<bool>(), name == "IIG" || name == "IGG" || name == "GIG" || name == "GGG")
        << name;
  }
}

// Of the rank and the node that have the most; the memory is that of docs/paro.md.
TEST(HoringParo, PlansForNodesOfDifferentSizes) {
  const auto plan = [](std::vector<std::string> nodes) {
    nodes.insert(nodes.begin(), {"plan", "--params", "1B", "--json"});
    return horingParo(nodes);
  };
  const Outcome run = plan({"--ranks-per-node", "4,3", "--accumulate", "10"});
  ASSERT_EQ(run.code, 0) << run.errors;
  const nlohmann::json uneven = nlohmann::json::parse(run.output);
  EXPECT_EQ(uneven["question"]["ranks"], (nlohmann::json{4, 3}));
  const auto of = [&](const char* name) {
    return *std::ranges::find_if(uneven["strategies"],
                                 [&](const auto& each) { return each["name"] == name; });
  };
  for (const auto& [name, memory] : {std::pair("NNN", 16.0), {"NII", 6.667}, {"III", 5.333}, {"IIG", 3.048}})
    EXPECT_NEAR(of(name)["memory_bytes"].get<double>() / 1e9, memory, 0.001) << name;
  const auto leaves = [&](const char* name, const char* what) {
    return of(name)["traffic_bytes"][what].get<double>() / 1e9;
  };
  EXPECT_NEAR(leaves("NNN", "slow_per_node_and_step"), 2, 1e-6);  // 2D(M-1)/M, where gradients have 2 bytes
  EXPECT_EQ(leaves("IIG", "slow_per_node_and_micro_step"), 0);
  EXPECT_GT(leaves("GGG", "slow_per_node_and_micro_step"), 1);
  EXPECT_NE(run.output.find("leave the node that sends the most"), std::string::npos) << run.output;

  EXPECT_EQ(plan({"--ranks-per-node", "4,4"}).output, plan({"--nodes", "2", "--ranks", "4"}).output);
  EXPECT_EQ(plan({"--ranks-per-node", "4,3", "--nodes", "2"}).code, 2);
  EXPECT_EQ(plan({"--ranks-per-node", "4,0"}).code, 2);
  const Outcome many = plan({"--ranks-per-node", "500,20"});
  EXPECT_EQ(many.code, 1);
  EXPECT_NE(many.errors.find("520 ranks on nodes of different sizes, expected at most 512"),
            std::string::npos)
      << many.errors;
}

TEST(HoringParo, DrawsThePlan) {
  const std::string path = testing::TempDir() + "horing_paro_plan.svg";
  const Outcome run = horingParo({"plan", "--params", "7e9", "--trainable", "7e9", "--nodes", "4", "--ranks",
                                  "8", "--accumulate", "10", "--memory", "80GiB", "--svg", path});
  ASSERT_EQ(run.code, 0) << run.errors;
  std::stringstream picture;
  picture << std::ifstream(path).rdbuf();
  EXPECT_EQ(picture.str().rfind("<svg", 0), 0u);
  EXPECT_NE(picture.str().find("</svg>"), std::string::npos);
  // The recommended strategy, its cost, the meaning of the letters, and the effect of more or less memory.
  for (const char* part :
       {"Take NNG ZeRO-1: 0.29 s of communication, 30.6 GB per rank", "limit: 85.9 GB per rank",
        "N whole on every rank, I split inside each node", "the least time for this much memory"})
    EXPECT_NE(picture.str().find(part), std::string::npos) << part;
  size_t steps = 0;
  for (size_t at = 0; (at = picture.str().find("class=\"front\"", at)) != std::string::npos; ++at) ++steps;
  EXPECT_EQ(steps, 1u + 2 * 5);  // the legend's; down from GGG over IGG, IIG, NGG and NIG to NNG
  std::remove(path.c_str());
}

TEST(HoringParo, SaysByHowMuchNothingFits) {
  const Outcome run =
      horingParo({"plan", "--params", "65e9", "--nodes", "4", "--ranks", "8", "--memory", "30GB"});
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.errors.find("GGG (ZeRO-3) needs least, 32.5 GB, which is 2.50 GB too much"),
            std::string::npos)
      << run.errors;
  EXPECT_NE(run.output.find("too large"), std::string::npos);
}

TEST(HoringParo, NamesTheOptionThatIsWrong) {
  const Outcome quantity = horingParo({"plan", "--params", "7e9", "--memory", "plenty"});
  EXPECT_EQ(quantity.code, 1);
  EXPECT_NE(quantity.errors.find("--memory: 'plenty'"), std::string::npos) << quantity.errors;
  EXPECT_EQ(horingParo({"plan"}).code, 2);
  EXPECT_EQ(horingParo({}).code, 2);
  const Outcome option = horingParo({"--bogus"});
  EXPECT_EQ(option.code, 2);
  EXPECT_NE(option.errors.find("--bogus"), std::string::npos) << option.errors;
  const Outcome more = horingParo({"plan", "--params", "7", "--trainable", "8"});
  EXPECT_EQ(more.code, 1);
  EXPECT_NE(more.errors.find("trainable"), std::string::npos);
  const Outcome file = horingParo({"plan", "--params", "7", "--costs", "/nowhere/costs.json"});
  EXPECT_EQ(file.code, 1);
  EXPECT_NE(file.errors.find("/nowhere/costs.json"), std::string::npos);
}

TEST(HoringParo, PrintsThePapersGuideline) {
  const Outcome run = horingParo({"table"});
  ASSERT_EQ(run.code, 0) << run.errors;
  std::istringstream lines(run.output);
  std::string line, found;
  while (std::getline(lines, line))
    if (line.rfind("NII", 0) == 0) found = line;
  EXPECT_NE(found.find("0.80 s *"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("40.7 s"), std::string::npos) << run.output;
}

}  // namespace
}  // namespace horing::test
