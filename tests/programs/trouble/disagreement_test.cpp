// Ranks that disagree on their calls. Each must get an error that names the rank, long before any deadline.
#include <gtest/gtest.h>

#include "job.h"

namespace horing::test {
namespace {

// A rank that fails at all does so in this time; a deadline that had to pass would be far beyond.
constexpr double kHeardWithinMs = 25000;

struct Case {
  const char* name;
  std::vector<std::string> words;
  const char* event;
  const char* text;  // on every rank
  int rank = 2;      // named on every rank
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name;
}

class Disagreement : public testing::TestWithParam<Case> {};

TEST_P(Disagreement, IsToldToEveryRankWithTheRankThatDiffers) {
  const Case& one = GetParam();
  const JobOutcome outcome = runJob({.ranks = 3, .words = one.words});
  // Two processes may have come as one rank.
  int heard = 0;
  for (const Event& event : outcome.events) {
    if (event.name != one.event) continue;
    ++heard;
    EXPECT_NE(event.code, kSuccess) << outcome.everything;
    EXPECT_NE(event.text.find(one.text), std::string::npos) << event.text;
    EXPECT_TRUE(namesRank(event.text, one.rank)) << event.text;
    EXPECT_LT(event.took_ms, kHeardWithinMs) << event.text;
  }
  EXPECT_EQ(heard, 3) << outcome.everything;
}

// The majority is right, so rank 2 is named.
constexpr const char* kSame = "rank 2 called ";

INSTANTIATE_TEST_SUITE_P(
    Of, Disagreement,
    testing::Values(Case{"Counts", {"2:count=200000"}, "collective", kSame},
                    Case{"SmallCounts", {"count=5", "2:count=6"}, "collective", kSame},
                    Case{"Types", {"2:type=7"}, "collective", kSame},
                    Case{"TypeWidths", {"2:type=0"}, "collective", kSame},
                    Case{"Operations", {"2:op=2"}, "collective", kSame},
                    Case{"Collectives", {"2:collective=all_gather"}, "collective", kSame},
                    Case{"CollectivesOfOneSize",
                         {"collective=all_gather", "2:collective=reduce_scatter"},
                         "collective",
                         kSame},
                    Case{"SmallCollectives",
                         {"count=8", "collective=all_gather", "2:collective=reduce_scatter"},
                         "collective",
                         kSame},
                    // Rank 0 is done with its part at once, and remembers.
                    Case{"Roots",
                         {"collective=broadcast", "2:root=1", "rounds=2", "0:late_round=1",
                          "0:call_late_ms=1500"},
                         "collective",
                         kSame},
                    Case{"Algorithms", {"2:HORING_ALGO=ring"}, "join", "rank 2 has HORING_ALGO=ring"},
                    Case{"Slices", {"2:HORING_SLICE_BYTES=512"}, "join", "rank 2 has HORING_SLICE_BYTES=512"},
                    Case{"Ranks", {"2:RANK=1"}, "join", "two processes joined as one rank", 1},
                    Case{"Sizes", {"2:WORLD_SIZE=5"}, "join", "pass the same number on every rank"},
                    // The last rank to arrive finds the others gone, and gets the error all the same.
                    Case{"SizesBeforeTheLastCame",
                         {"2:WORLD_SIZE=5", "1:join_late_ms=700"},
                         "join",
                         "pass the same number on every rank"}),
    [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

}  // namespace
}  // namespace horing::test
