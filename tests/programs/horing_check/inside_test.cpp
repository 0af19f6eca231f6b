// What nodes do without others, and their clocks.
#include "horing_check/inside.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "horing_check/clocks.h"
#include "horing_check/report.h"

namespace horing::check {
namespace {

// Each figure is off by `spread`.
std::vector<InsideRates> ratesOf(size_t nodes, unsigned seed, double spread = 0.05) {
  std::mt19937 random(seed);
  std::normal_distribution<> off(0, spread);
  std::vector<InsideRates> rates(nodes);
  for (InsideRates& one : rates)
    one = {1e10 * std::exp(off(random)), 2e10 * std::exp(off(random)), 5e9 * std::exp(off(random)),
           std::min(1.0, std::exp(off(random)))};
  return rates;
}

std::string blamedInside(const std::vector<InsideRates>& rates, const std::vector<std::string>& kinds) {
  std::string text;
  for (const Finding& finding : compareInside(rates, kinds, true)) {
    EXPECT_TRUE(finding.confirmed && finding.part == Part::kInside);
    text += (text.empty() ? "" : ", ") + std::to_string(finding.node) +
            (finding.quantity == Quantity::kCopy     ? " copies"
             : finding.quantity == Quantity::kFold   ? " folds"
             : finding.quantity == Quantity::kShared ? " shares"
                                                     : " runs");
  }
  return text;
}

TEST(InsideNodes, AreNotBlamedForNoise) {
  for (const size_t nodes : {1u, 2u, 3u, 4u, 8u, 16u, 100u})
    for (const double spread : {0.01, 0.05}) {
      int clean = 0;
      for (unsigned seed = 1; seed <= 200; ++seed)
        clean +=
            blamedInside(ratesOf(nodes, seed, spread), std::vector<std::string>(nodes, "x")).empty() ? 1 : 0;
      EXPECT_GE(clean, spread < 0.05 ? 200 : 199) << nodes << " nodes, " << spread;
    }
}

TEST(InsideNodes, MayDifferAsMuchAsTheyUsuallyDo) {
  int clean = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    std::vector<InsideRates> rates = ratesOf(16, seed, 0.15);
    for (InsideRates& one : rates) one.running = 1;
    clean += blamedInside(rates, std::vector<std::string>(16, "x")).empty() ? 1 : 0;
  }
  EXPECT_GE(clean, 99);
}

TEST(InsideNodes, AreNamedForWhatIsSlow) {
  const std::vector<std::string> kinds(8, "x");
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::vector<InsideRates> rates = ratesOf(8, seed, 0.02);
    rates[3].copy *= 0.6, rates[5].fold *= 0.5, rates[1].shared *= 0.3, rates[6].running = 0.5;
    EXPECT_EQ(blamedInside(rates, kinds), "3 copies, 5 folds, 1 shares, 6 runs") << seed;
    rates[2].copy = rates[2].fold = rates[2].shared = rates[2].running = 0;
    EXPECT_EQ(blamedInside(rates, kinds), "3 copies, 5 folds, 1 shares, 6 runs") << "without node 2";
  }
  EXPECT_EQ(compareInside({}, {}, true).size(), 0u);
}

TEST(InsideNodes, AreComparedWithTheSameProcessors) {
  std::vector<InsideRates> rates = ratesOf(8, 1, 0.02);
  for (size_t node : {0u, 1u, 2u, 3u}) rates[node].fold *= 0.5;
  rates[1].fold *= 0.6;
  EXPECT_EQ(blamedInside(rates, {"old", "old", "old", "old", "new", "new", "new", "new"}), "1 folds");
  EXPECT_EQ(blamedInside(rates, {"old", "rare", "old", "old", "new", "new", "new", "new"}), "");
}

Report insideReport() {
  Report report;
  report.names = {"n0", "n1", "n2", "n3"};
  report.inside = ratesOf(4, 1, 0.01);
  report.inside[2].copy = 6e9;
  report.inside[3].running = 0.5;
  addFindings(report.verdict, compareInside(report.inside, std::vector<std::string>(4, "x"), true));
  return report;
}

TEST(InsideNodes, AreInTextAndJson) {
  const Report report = insideReport();
  const std::string text = verdictText(report);
  EXPECT_NE(text.find("inside nodes: a core copies "), std::string::npos) << text;
  EXPECT_NE(text.find("n2 copies memory at 60 % of the rate of others (6.00 GB/s): look at "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("n3 ran only 50 % of the time: look at "), std::string::npos) << text;
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
  const auto json = nlohmann::json::parse(reportToJson(report));
  ASSERT_EQ(json["findings"].size(), 2u);
  EXPECT_EQ(json["findings"][0]["quantity"], "copy");
  EXPECT_EQ(json["findings"][0]["part"], "inside");
  EXPECT_EQ(json["findings"][1]["node"], "n3");
  EXPECT_EQ(json["inside"][2]["copy_bytes_per_s"], 6e9);
  EXPECT_EQ(json["inside"][3]["running_share"], 0.5);
}

// All-gathers that nodes come to and leave at random times within `within_s`, on clocks that are so far ahead.
std::vector<std::vector<ClockReading>> gathers(const std::vector<double>& ahead_s, double within_s,
                                               unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<> wait(0, within_s);
  std::vector<std::vector<ClockReading>> turns(4);
  double now_s = 1.8e9;
  for (auto& turn : turns) {
    for (const double ahead : ahead_s)
      turn.push_back({static_cast<int64_t>((now_s + wait(random) + ahead) * 1e9),
                      static_cast<int64_t>((now_s + within_s + wait(random) + ahead) * 1e9)});
    now_s += 10 * within_s;
  }
  return turns;
}

TEST(Clocks, AreComparedAsFarAsTheirDelaysAllow) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const std::vector<double> ahead = {0, 12.5, 0.003, -0.4, -0.001};
    const std::vector<ClockOffset> offsets = offsetsOf(gathers(ahead, 0.002, seed));
    for (size_t node = 0; node < ahead.size(); ++node) {
      EXPECT_NEAR(offsets[node].offset_s, ahead[node], offsets[node].uncertainty_s + 0.0041) << seed;
      EXPECT_LT(offsets[node].uncertainty_s, 0.01);
      EXPECT_EQ(isOff(offsets[node]), node == 1 || node == 3) << node;
    }
    // Node 0 may be the one.
    const std::vector<ClockOffset> first = offsetsOf(gathers({-7, 0, 0}, 0.002, seed));
    EXPECT_TRUE(isOff(first[0]) && !isOff(first[1]) && !isOff(first[2])) << first[0].offset_s;
    // Late messages are no late clock.
    for (const ClockOffset& offset : offsetsOf(gathers({0, 0, 0, 0}, 3, seed))) EXPECT_FALSE(isOff(offset));
  }
}

TEST(Clocks, AreFacts) {
  Report report;
  report.names = {"n0", "n1"};
  report.clocks = {{0, 0.001}, {-2.5, 0.001}};
  EXPECT_NE(verdictText(report).find("  clock of n1: 2.50 s behind that of most (to within 1"),
            std::string::npos)
      << verdictText(report);
  EXPECT_EQ(outcomeOf(report), Outcome::kGood);
  const auto json = nlohmann::json::parse(reportToJson(report));
  EXPECT_EQ(json["clocks"][1]["offset_seconds"], -2.5);
}

}  // namespace
}  // namespace horing::check
