// `horing-paro train`, run as a user runs it: alone, and by several ranks in groups that HORING_GROUP names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"

namespace horing::test {
namespace {

using nlohmann::json;

// Layers of 1280, 273 and so on: sizes that divide nothing evenly, several to a bucket and some alone.
constexpr const char* kModel = " --context 4 --embedding 5 --layers 2 --bucket 3000 --batch 48 --hidden ";

std::string outputPath() {
  return testing::TempDir() + "horing_paro_train_" + std::to_string(getpid()) + ".json";
}

// What the program measured: an entry for each strategy.
json measured(const Outcome& run) {
  EXPECT_EQ(run.code, 0) << run.output << run.errors;
  std::ifstream file(outputPath());
  json document = json::parse(file, nullptr, false);
  std::remove(outputPath().c_str());
  return document;
}

json trainAlone(const std::string& options) {
  return measured(runProgram({"sh", "-c",
                              std::string("exec ") + HORING_PARO_PROGRAM + " train" + kModel + options +
                                  " --json " + outputPath()}));
}

// `horing-paro ARGUMENTS` on every rank of groups x members.
Outcome inGroups(int groups, int members, const std::string& arguments) {
  const std::string ranks = std::to_string(groups * members);
  return runProgram({HORING_RUN_PROGRAM, "-n", ranks, "--timeout", "100", "--", "sh", "-c",
                     "HORING_GROUP=g$((RANK/" + std::to_string(members) + ")) exec " + HORING_PARO_PROGRAM +
                         " " + arguments});
}

Outcome trainInGroups(int groups, int members, const std::string& options) {
  return inGroups(groups, members, std::string("train") + kModel + options + " --json " + outputPath());
}

double largestDifference(const json& losses, const json& expected) {
  EXPECT_EQ(losses.size(), expected.size());
  double largest = 0;
  for (size_t i = 0; i < losses.size() && i < expected.size(); ++i)
    largest = std::max(largest, std::abs(losses[i].get<double>() / expected[i].get<double>() - 1));
  return largest;
}

TEST(HoringParoTrain, LearnsTheSameWithEveryStrategyAsAlone) {
  const json alone = trainAlone("13 --precision fp64 --learning-rate 0.01 --steps 25");
  const json runs = measured(trainInGroups(
      2, 2, "13 --precision fp64 --learning-rate 0.01 --steps 25 --accumulate 2 --strategy all"));
  ASSERT_EQ(runs.size(), 14u);
  for (const json& run : runs) {
    EXPECT_LT(largestDifference(run["losses"], alone[0]["losses"]), 1e-10) << run["strategy"];
    EXPECT_EQ(run["nodes"], 2) << run["strategy"];
  }
  const json& losses = alone[0]["losses"];
  EXPECT_NEAR(losses[0].get<double>(), std::log(256), 0.5);
  EXPECT_LT(losses[24].get<double>(), losses[0].get<double>() - 0.5);  // the loss falls
}

TEST(HoringParoTrain, LearnsTheSameOnTwoGroupsOfFour) {
  const json alone = trainAlone("13 --precision fp64 --learning-rate 0.01 --steps 20");
  const json run = measured(trainInGroups(
      2, 4, "13 --precision fp64 --learning-rate 0.01 --steps 20 --accumulate 2 --strategy IIG"));
  EXPECT_LT(largestDifference(run[0]["losses"], alone[0]["losses"]), 1e-10);
}

// A gradient is a sum over the batch: another order of it changes each by some (batch - 1) * 2^-24 of the magnitudes at most, and every
// step adds what its own sums change. That is the bound: losses of step k are within k * batch * 2^-24 of each other.
TEST(HoringParoTrain, LearnsInSinglePrecisionTheSameWithinWhatTheOrderOfSumsAllows) {
  const std::string options = "13 --precision fp32 --learning-rate 0.01 --steps 20";
  const json alone = trainAlone(options);
  const json runs = measured(trainInGroups(2, 2, options + " --accumulate 2 --strategy all"));
  ASSERT_EQ(runs.size(), 14u);
  for (const json& run : runs)
    for (size_t step = 1; step <= 20; ++step)
      EXPECT_NEAR(run["losses"][step - 1].get<double>() / alone[0]["losses"][step - 1].get<double>(), 1,
                  static_cast<double>(step) * 48 * 0x1p-24)
          << run["strategy"] << " step " << step;
}

// With bfloat16 gradients as far as their 8 bits allow.
TEST(HoringParoTrain, LearnsNearlyTheSameInMixedPrecision) {
  const json alone = trainAlone("13 --precision fp64 --learning-rate 0.01 --steps 20");
  const json mixed = measured(trainInGroups(
      2, 2, "13 --precision mixed --learning-rate 0.01 --steps 20 --accumulate 2 --strategy GGG"));
  EXPECT_LT(largestDifference(mixed[0]["losses"], alone[0]["losses"]), 2e-2);
}

TEST(HoringParoTrain, LeavesFrozenLayersAsTheyAre) {
  const json alone = trainAlone("13 --precision fp64 --learning-rate 0.01 --steps 10 --freeze 2");
  const json run = measured(
      trainInGroups(2, 2, "13 --precision fp64 --learning-rate 0.01 --steps 10 --freeze 2 --strategy ING"));
  EXPECT_LT(largestDifference(run[0]["losses"], alone[0]["losses"]), 1e-10);
  EXPECT_LT(run[0]["trainable"], run[0]["parameters"]);
  EXPECT_GT(largestDifference(run[0]["losses"],
                              trainAlone("13 --precision fp64 --learning-rate 0.01 --steps 10")[0]["losses"]),
            1e-6);
}

TEST(HoringParoTrain, NeedsTheMemoryOfTheFormulas) {
  const json runs =
      measured(trainInGroups(2, 2, "200 --precision fp32 --replay --steps 3 --accumulate 4 --strategy all"));
  ASSERT_EQ(runs.size(), 14u);
  for (const json& run : runs)
    EXPECT_NEAR(run["state_bytes"].get<double>() / run["formula_state_bytes"].get<double>(), 1, 0.02)
        << run["strategy"];
}

// Four ranks on two nodes, in the groups that `group` names: what the kernel has counted on the first node's link.
struct Linked {
  double received;
  json runs;
};
Linked trainOnNodes(const std::string& ranks_per_node, const std::string& group, const std::string& options) {
  const std::string counts = outputPath() + ".bytes";
  const Outcome run = runProgram({HORING_RUN_PROGRAM, "--ranks-per-node", ranks_per_node, "--timeout", "100",
                                  "--report-bytes", counts, "--", "sh", "-c",
                                  "HORING_GROUP=" + group + " exec " + HORING_PARO_PROGRAM + " train" +
                                      kModel + options + " --json " + outputPath()});
  std::ifstream file(counts);
  const json counted = json::parse(file, nullptr, false);
  std::remove(counts.c_str());
  return {counted["interfaces"][0]["received_bytes"]["during"].get<double>(), measured(run)};
}

// A rank's bytes between groups, or inside its group, as they pass over the node's link: the groups are the nodes, or span them.
void expectCountedBytes(const std::string& group, const char* formula, const std::string& strategy) {
  const std::string options =
      "256 --precision fp32 --replay --accumulate 2 --strategy " + strategy + " --steps ";
  const Linked few = trainOnNodes("2,2", group, options + "1"),
               many = trainOnNodes("2,2", group, options + "3");
  double expected = 0;
  for (const json& run : many.runs) expected += 2 * 2 * run[formula].get<double>();  // 2 ranks, 2 steps
  EXPECT_NEAR((many.received - few.received) / expected, 1, 0.04) << strategy << " " << formula;
}

TEST(HoringParoTrain, MovesTheBytesOfTheFormulas) {
  HORING_NEEDS_NODES();
  expectCountedBytes("g$((RANK/2))", "formula_slow_bytes_per_rank_and_step", "IGG");
  expectCountedBytes("g$((RANK/2))", "formula_slow_bytes_per_rank_and_step", "all");
  expectCountedBytes("g$((RANK%2))", "formula_fast_bytes_per_rank_and_step", "all");
}

TEST(HoringParoTrain, MovesTheBytesOfTheFormulasBetweenNodesOfDifferentSizes) {
  HORING_NEEDS_NODES();
  for (const char* const ranks_per_node : {"3,1", "1,3"}) {
    const std::string group = ranks_per_node[0] == '3' ? "g$((RANK/3))" : "g$(((RANK+2)/3))";
    const std::string options = "256 --precision fp32 --replay --accumulate 2 --strategy all --steps ";
    const Linked few = trainOnNodes(ranks_per_node, group, options + "1"),
                 many = trainOnNodes(ranks_per_node, group, options + "3");
    double expected = 0;
    for (const json& run : many.runs) expected += 2 * run["slow_bytes_per_node_and_step"][1].get<double>();
    EXPECT_NEAR((many.received - few.received) / expected, 1, 0.04) << ranks_per_node;
  }
}

TEST(HoringParoTrain, LearnsTheSameOnGroupsOfDifferentSizes) {
  const std::string options = "13 --precision fp64 --learning-rate 0.01 --steps 20";
  const json alone = trainAlone(options);
  const json runs =
      measured(runProgram({HORING_RUN_PROGRAM, "-n", "4", "--timeout", "100", "--", "sh", "-c",
                           std::string("HORING_GROUP=g$((RANK/3)) exec ") + HORING_PARO_PROGRAM + " train" +
                               kModel + options + " --accumulate 2 --strategy all --json " + outputPath()}));
  ASSERT_EQ(runs.size(), 14u);
  for (const json& run : runs) {
    EXPECT_LT(largestDifference(run["losses"], alone[0]["losses"]), 1e-10) << run["strategy"];
    EXPECT_EQ(run["group_sizes"], (json{3, 1})) << run["strategy"];
    EXPECT_NEAR(run["state_bytes"].get<double>() / run["formula_state_bytes"].get<double>(), 1, 0.02)
        << run["strategy"];
  }
}

TEST(HoringParoTrain, GoesOnFromACheckpointWithAnotherStrategyOnOtherRanks) {
  const std::string folder = testing::TempDir() + "horing_paro_checkpoint_" + std::to_string(getpid());
  const std::string options = "13 --precision fp64 --learning-rate 0.01 --strategy ";
  const json alone = trainAlone("13 --precision fp64 --learning-rate 0.01 --steps 12");
  (void)measured(trainInGroups(2, 2, options + "GIG --steps 5 --save " + folder));
  const json more = measured(trainInGroups(2, 3, options + "NII --steps 12 --load " + folder));
  EXPECT_EQ(more[0]["first_step"], 6);
  ASSERT_EQ(more[0]["losses"].size(), 7u);
  for (size_t i = 0; i < 7; ++i)
    EXPECT_NEAR(more[0]["losses"][i].get<double>() / alone[0]["losses"][i + 5].get<double>(), 1, 1e-10) << i;

  const auto refuses = [&](const std::string& command, const char* named) {
    const Outcome run = inGroups(1, 1, "train --load " + folder + kModel + command);
    EXPECT_EQ(run.code, 1);
    EXPECT_NE(run.errors.find(named), std::string::npos) << run.errors;
  };
  refuses("13 --precision fp64 --steps 5", "is of step 5, and there are to be 5 steps in all");
  refuses("14 --precision fp64", "the checkpoint is of another model: its parameter");
  refuses("13 --precision fp32", "the checkpoint is of another model: its parameter");
  refuses("13 --strategy all --save " + folder, "name one strategy");
  std::filesystem::remove_all(folder);
  refuses("13", "/manifest: No such file");
}

TEST(HoringParoTrain, EndsWithAnErrorWhenItDiverges) {
  const std::string folder = testing::TempDir() + "horing_paro_diverged_" + std::to_string(getpid());
  const Outcome run = runProgram({HORING_PARO_PROGRAM, "train", "--learning-rate", "1e38", "--save", folder});
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.errors.find("training has diverged"), std::string::npos) << run.errors;
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(HoringParoTrain, RefusesBeforeTheFirstStepWhatItCouldNotWriteAfterTheLast) {
  const std::string file = testing::TempDir() + "horing_paro_no_folder_" + std::to_string(getpid());
  std::ofstream(file) << "mine";
  const auto refuses = [&](const std::string& option, const std::string& path, const char* named) {
    const Outcome run = inGroups(2, 2, "train --steps 2 " + option + " " + path);
    EXPECT_NE(run.code, 0);
    EXPECT_NE(run.errors.find(named), std::string::npos) << run.errors;
    EXPECT_EQ(run.output.find("loss"), std::string::npos) << run.output;
  };
  refuses("--save", file, "rank 0: cannot create");
  refuses("--save", file + "/folder", "rank 0: cannot make the folder");
  for (const char* option : {"--csv", "--svg", "--json"}) refuses(option, file + "/file", "cannot write");
  std::remove(file.c_str());
}

TEST(HoringParo, RefusesSizesThatNoMachineHas) {
  const auto refuses = [](const std::string& command, const char* named) {
    const Outcome run = inGroups(1, 1, command);
    EXPECT_EQ(run.code, 1) << command << run.errors;
    EXPECT_NE(run.errors.find(named), std::string::npos) << run.errors;
  };
  refuses("measure --bytes 1e30", "'1e30' is not a number of bytes");
  refuses("measure --bytes 1e17", "of memory, ask for less");
  refuses("measure --strategy NNN --params 1e300", "of memory, ask for less");
  refuses("train --bucket 1e30", "'1e30' is not a number of bytes");
  refuses("train --memory -1", "'-1' is not a number of bytes");
}

TEST(HoringParoTrain, TakesWhatFitsOrSaysWhatIsMissing) {
  const Outcome none =
      inGroups(2, 2, std::string("train") + kModel + "13 --steps 1 --strategy NNN --memory 10kB");
  EXPECT_NE(none.code, 0);
  EXPECT_NE(none.errors.find("NNN"), std::string::npos) << none.errors;
  const Outcome unknown = runProgram({HORING_PARO_PROGRAM, "train", "--strategy", "XYZ"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.errors.find("XYZ"), std::string::npos) << unknown.errors;
  const Outcome batch = runProgram({HORING_PARO_PROGRAM, "train", "--batch", "10", "--accumulate", "3"});
  EXPECT_EQ(batch.code, 1);
  EXPECT_NE(batch.errors.find("multiple of 3"), std::string::npos) << batch.errors;
}

TEST(HoringParoMeasure, GivesThePlannerItsCosts) {
  const std::string costs = testing::TempDir() + "horing_paro_costs_" + std::to_string(getpid()) + ".json";
  const Outcome measure = inGroups(2, 2, "measure --bytes 256KiB --output " + costs);
  ASSERT_EQ(measure.code, 0) << measure.errors;
  const std::vector<std::string> plan = {HORING_PARO_PROGRAM, "plan", "--params", "1M",
                                         "--costs",           costs,  "--ranks",  "2"};
  std::vector<std::string> here = plan;
  here.insert(here.end(), {"--nodes", "2", "--json"});
  const Outcome planned = runProgram(here);
  ASSERT_EQ(planned.code, 0) << planned.errors;
  const json strategies = json::parse(planned.output)["strategies"];
  EXPECT_EQ(strategies.size(), 14u);
  for (const json& strategy : strategies)
    EXPECT_GT(strategy["communication_seconds"].get<double>(), 0) << strategy["name"];
  const Outcome elsewhere = runProgram(plan);
  EXPECT_EQ(elsewhere.code, 1);
  EXPECT_NE(elsewhere.errors.find("measured on 2 nodes of 2 ranks, not on 1 node of 2 ranks"),
            std::string::npos)
      << elsewhere.errors;
  std::remove(costs.c_str());
}

TEST(HoringParoMeasure, GivesThePlannerTheCostsOfNodesOfDifferentSizes) {
  const std::string costs = testing::TempDir() + "horing_paro_uneven_" + std::to_string(getpid()) + ".json";
  const auto on_two_and_one = [](const std::string& arguments) {
    return runProgram(
        {HORING_RUN_PROGRAM, "-n", "3", "--timeout", "100", "--", "sh", "-c",
         std::string("HORING_GROUP=g$((RANK/2)) exec ") + HORING_PARO_PROGRAM + " " + arguments});
  };
  const Outcome measure = on_two_and_one("measure --bytes 256KiB --output " + costs);
  ASSERT_EQ(measure.code, 0) << measure.errors;
  const auto plan = [&](const std::string& sizes) {
    return runProgram({HORING_PARO_PROGRAM, "plan", "--params", "1M", "--costs", costs, "--ranks-per-node",
                       sizes, "--json"});
  };
  const Outcome planned = plan("2,1");
  ASSERT_EQ(planned.code, 0) << planned.errors;
  const json report = json::parse(planned.output);
  for (const json& strategy : report["strategies"])
    EXPECT_GT(strategy["communication_seconds"].get<double>(), 0) << strategy["name"];
  const Outcome elsewhere = plan("1,2");
  EXPECT_EQ(elsewhere.code, 1);
  EXPECT_NE(elsewhere.errors.find("measured on nodes of 2, 1 ranks, not on nodes of 1, 2 ranks"),
            std::string::npos)
      << elsewhere.errors;
  const Outcome by_hand = on_two_and_one("measure --strategy IIG");
  EXPECT_EQ(by_hand.code, 1);
  EXPECT_NE(by_hand.errors.find("these are nodes of 2, 1 ranks"), std::string::npos) << by_hand.errors;
  std::remove(costs.c_str());
}

TEST(HoringParoMeasure, TimesTheCollectivesOfAStrategyAndItsClient) {
  const Outcome run = inGroups(2, 2, "measure --strategy zero-3 --params 100k --accumulate 2 --client");
  ASSERT_EQ(run.code, 0) << run.errors;
  std::istringstream words(run.output);
  double collectives = 0, client = 0;
  ASSERT_TRUE(words >> collectives >> client) << run.output;
  for (const double seconds : {collectives, client}) {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 60);
  }
  EXPECT_EQ(inGroups(1, 1, "measure --strategy zero-4").code, 1);
}

TEST(HoringParoTrain, WritesTheLossAsTableAndPicture) {
  const std::string csv = testing::TempDir() + "loss.csv", svg = testing::TempDir() + "loss.svg";
  const Outcome run =
      runProgram({HORING_PARO_PROGRAM, "train", "--steps", "3", "--hidden", "8", "--csv", csv, "--svg", svg});
  ASSERT_EQ(run.code, 0) << run.errors;
  std::ifstream table(csv), picture(svg);
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "step,NNN_loss,NNN_seconds");
  int rows = 0;
  while (std::getline(table, line)) ++rows;
  EXPECT_EQ(rows, 3);
  std::getline(picture, line);
  EXPECT_EQ(line.rfind("<svg", 0), 0u);
  std::remove(csv.c_str());
  std::remove(svg.c_str());
}

}  // namespace
}  // namespace horing::test
