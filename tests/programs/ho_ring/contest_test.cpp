#include "ho_ring/contest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "../perf/threads_library.h"
#include "ho_ring/contest_report.h"

namespace horing::bench {
namespace {

std::vector<nlohmann::json> parseLines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Runs body(ring, ho_ring) on two ranks.
template <typename Body>
void onTwoRanks(Body&& body) {
  horingComm_t ring[2];
  horingComm_t ho_ring[2];
  ASSERT_EQ(horingCommInitAll(ring, 2, nullptr), horingSuccess);
  ASSERT_EQ(horingCommInitAll(ho_ring, 2, nullptr), horingSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      body(perf::Ranks::of(ring[r]).take(), perf::Ranks::of(ho_ring[r]).take());
      (void)horingCommDestroy(ring[r]);
      (void)horingCommDestroy(ho_ring[r]);
    });
  for (std::thread& thread : threads) thread.join();
}

ContestOptions smallContest() {
  ContestOptions options;
  options.sizes = {8192, 4096};
  options.collectives = {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce};
  options.repetitions = 4;
  return options;
}

TEST(Contest, TimesBothAlgorithmsAsOftenAsAsked) {
  onTwoRanks([](perf::Ranks ring, perf::Ranks ho_ring) {
    const Result<JobLayout> layout = findLayout(ho_ring);
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ(layout.value().shape.nodes, 1);
    EXPECT_EQ(layout.value().is_leader, ring.rank() == 0);
    Contest contest(ring, ho_ring, layout.value(), {});
    int turns = 0;
    const auto results = contest.run(smallContest(), [&](const std::string&) { ++turns; });
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ(turns, 3 + 2 * 5);
    ASSERT_EQ(results.value().size(), 2u);
    for (const SizeResult& size : results.value()) {
      EXPECT_TRUE(size.raw.times_ms.empty());
      ASSERT_EQ(size.matches.size(), 3u);
      for (const Match& match : size.matches) {
        EXPECT_EQ(match.bytes, size.bytes);
        EXPECT_EQ(match.ring.times_ms.size(), 4u);
        EXPECT_EQ(match.ho_ring.times_ms.size(), 4u);
        EXPECT_GT(match.ho_ring.least(), 0);
      }
    }
  });
}

TEST(Contest, RefusesToTimeWrongResults) {
  testing::faults().corrupt = true;
  onTwoRanks([](perf::Ranks ring, perf::Ranks ho_ring) {
    Contest contest(ring, ho_ring, findLayout(ho_ring).take(), {});
    const auto results = contest.run(smallContest(), [](const std::string&) {});
    ASSERT_FALSE(results.ok());
    EXPECT_NE(results.status().message().find("elements are wrong"), std::string::npos);
  });
  testing::faults().corrupt = false;
}

TEST(Samples, HaveAMedianOfEvenAndOddNumbers) {
  Samples samples;
  samples.times_ms = {5, 1, 3};
  EXPECT_EQ(samples.median(), 3);
  samples.times_ms.push_back(4);
  EXPECT_EQ(samples.median(), 3.5);
  EXPECT_EQ(samples.least(), 1);
  EXPECT_EQ(samples.most(), 5);
}

TEST(ContestReport, HoldsTimesAgainstBoundsAndTheory) {
  Match match;
  match.collective = Collective::kAllReduce;
  match.bytes = 64u << 20;
  match.ho_ring.times_ms = {1100};
  match.ho_ring.link_bytes = {static_cast<double>(64u << 20) * 1.01};
  match.ring.times_ms = {2090};
  match.ring.link_bytes = {static_cast<double>(64u << 20) * 1.9};
  SizeResult size;
  size.bytes = match.bytes;
  size.raw_bytes = 32u << 20;
  size.raw.times_ms = {540};
  size.matches.push_back(match);
  ContestOptions options;
  options.rate_mbit = 500;
  const std::vector<nlohmann::json> lines = parseLines(contestJsonLines({size}, {2, 16}, options));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0]["line"], "job");
  EXPECT_EQ(lines[0]["ranks_per_node"], 8);
  EXPECT_NEAR(lines[1]["over_wire_bound"], 1.0058, 0.001);
  EXPECT_EQ(lines[2]["algorithm"], "ring");
  EXPECT_NEAR(lines[2]["over_own_bound"], 1.038, 0.001);
  EXPECT_NEAR(lines[2]["over_wire_bound"], 1.946, 0.001);
  EXPECT_EQ(lines[3]["algorithm"], "ho_ring");
  EXPECT_NEAR(lines[3]["wire_bound_ms"], 1073.7, 0.1);
  EXPECT_NEAR(lines[3]["link_bytes_over_wire_bound"], 1.01, 1e-6);
  EXPECT_NEAR(lines[4]["ring_over_ho_ring"], 1.9, 1e-9);
  EXPECT_EQ(lines[4]["theory"], 1.875);
}

TEST(ContestReport, LeavesOutBoundsWhereThereIsNoLink) {
  Match match;
  match.ring.times_ms = {2};
  match.ho_ring.times_ms = {1};
  SizeResult size;
  size.matches.push_back(match);
  const std::vector<nlohmann::json> lines = parseLines(contestJsonLines({size}, {1, 4}, ContestOptions()));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_FALSE(lines[1].contains("over_wire_bound"));
  EXPECT_FALSE(lines[3].contains("theory"));
  EXPECT_EQ(lines[3]["ring_over_ho_ring"], 2);
}

}  // namespace
}  // namespace horing::bench
