// `horing-paro plan` and `table`, run as a user runs them.
#include <gtest/gtest.h>

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
