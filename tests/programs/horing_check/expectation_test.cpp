// Nodes of different kinds on purpose.
#include "horing_check/expectation.h"

#include <gtest/gtest.h>

#include "horing_check/collectives.h"
#include "simulated_cluster.h"

namespace horing::check {
namespace {

using test::casesOf;

std::vector<double> sharesOf(const std::string& text, const std::vector<std::string>& names) {
  return Expectation::parse(text).take().sharesOf(names).take();
}

TEST(ExpectedRates, AreSharesOfTheFastest) {
  EXPECT_EQ(sharesOf("n[0-1,7]=400,n2=100\nelsewhere=9000", {"n0", "n7", "n2", "n1/3"}),
            (std::vector<double>{1, 1, 0.25, 1}));
  EXPECT_TRUE(Expectation().sharesOf({"n0", "n1"}).take().empty());
  EXPECT_EQ(sharesOf("a[08-10]-ib=2 a[8-10]-ib=1", {"a08-ib", "a9-ib"}), (std::vector<double>{1, 0.5}));
}

TEST(ExpectedRates, SayWhatIsWrong) {
  for (const char* wrong : {"",         " ,\n",      "node0=1e300", "node0=1e-300", "node0=nan",
                            "node0",    "=400",      "node0=",      "node0=fast",   "node0=0",
                            "node0=-1", "node0=inf", "n[0-=4",      "n[]=4",        "n[3-1]=4",
                            "n0-3]=4",  "n[a-b]=4",  "n[0][1]=4",   "n[[0]]=4",     "n[0-99999999999]=4"}) {
    const auto parsed = Expectation::parse(wrong);
    EXPECT_FALSE(parsed.ok()) << wrong;
  }
  const auto message = [](const std::string& text) {
    return Expectation::parse(text).take().sharesOf({"n0", "n1"}).status().message();
  };
  EXPECT_EQ(message("n0=1"), "--expect has no rate for n1: add n1=RATE");
  EXPECT_EQ(message("n[0-1]=1,n1=1"), "--expect has two rates for n1: leave one out");
}

// Two kinds, a node of each kind slow for its kind, on as many seeds.
struct Kinds {
  std::vector<double> shares;
  std::vector<std::pair<int, double>> slow;  // nodes, of what is expected of them
};

Verdict checkKinds(const Kinds& kinds, unsigned seed, bool expects = true) {
  SimulatedCluster cluster(static_cast<int>(kinds.shares.size()), seed);
  cluster.haveKinds(kinds.shares, expects);
  for (const auto& [node, factor] : kinds.slow) {
    cluster.slowSender(node, kinds.shares[static_cast<size_t>(node)] * factor);
    cluster.slowReceiver(node, kinds.shares[static_cast<size_t>(node)] * factor);
  }
  return cluster.check();
}

std::vector<double> halves(int fast, int slow) {
  std::vector<double> shares(static_cast<size_t>(fast), 1);
  shares.insert(shares.end(), static_cast<size_t>(slow), 0.5);
  return shares;
}

TEST(Kinds, AreNotBlamed) {
  for (const auto& shares :
       {halves(4, 4), halves(1, 7), halves(2, 6), halves(7, 1), halves(2, 1), halves(1, 1), halves(20, 20)})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      const Verdict verdict = checkKinds({shares, {}}, seed);
      EXPECT_TRUE(verdict.findings.empty() && verdict.uplinks.empty())
          << shares.size() << " nodes, seed " << seed << ": " << blamed(verdict);
    }
  EXPECT_NE(blamed(checkKinds({halves(7, 1), {}}, 1, false)), "") << "without --expect";
}

TEST(Kinds, HaveSlowNodesOfTheirOwn) {
  constexpr unsigned kCases = casesOf(50);
  unsigned right = 0;
  for (unsigned seed = 1; seed <= kCases; ++seed) {
    right += blamed(checkKinds({halves(4, 4), {{1, 0.5}}}, seed)) == "1 sends, 1 receives" ? 1 : 0;
    right += blamed(checkKinds({halves(4, 4), {{5, 0.7}}}, seed)) == "5 sends, 5 receives" ? 1 : 0;
    right += blamed(checkKinds({halves(8, 8), {{1, 0.5}, {9, 0.5}}}, seed)) ==
                     "1 sends, 1 receives, 9 sends, 9 receives"
                 ? 1
                 : 0;
    right += blamed(checkKinds({halves(20, 20), {{3, 0.6}, {30, 0.6}}}, seed)) ==
                     "3 sends, 3 receives, 30 sends, 30 receives"
                 ? 1
                 : 0;
  }
  EXPECT_GE(right, 4 * kCases - 2);
}

// Then no good node is as fast, and they judge each other.
TEST(Kinds, MayAllBeSlowerThanExpected) {
  const Kinds kinds{halves(4, 4), {{0, 0.5}, {1, 0.5}, {2, 0.5}, {3, 0.5}}};
  constexpr unsigned kCases = casesOf(50);
  unsigned right = 0;
  for (unsigned seed = 1; seed <= kCases; ++seed)
    right += blamed(checkKinds(kinds, seed)) ==
                     "0 sends, 0 receives, 1 sends, 1 receives, 2 sends, 2 receives, 3 sends, 3 receives"
                 ? 1
                 : 0;
  EXPECT_GE(right, kCases - 1);
}

// Of two fast nodes, a pair does not show which is slow.
TEST(Kinds, BlameNoHealthyNodeWhereOnlyOneCouldTell) {
  for (unsigned seed = 1; seed <= 20; ++seed)
    EXPECT_EQ(blamed(checkKinds({halves(2, 6), {{0, 0.5}}}, seed)), "0>1, 1>0") << seed;
}

TEST(Kinds, AreSimulatedWithTheirRates) {
  const Verdict verdict = checkKinds({halves(4, 4), {}}, 1);
  const auto seconds = [&](const std::vector<double>& shares) {
    return expectedSeconds(Collective::kAllReduce, 64 << 20, 8, verdict, false, shares).take();
  };
  EXPECT_NEAR(seconds(halves(4, 4)), 2 * seconds({}), 0.1 * seconds({}));
  EXPECT_NEAR(seconds(halves(8, 0)), seconds({}), 0.01 * seconds({}));
}

}  // namespace
}  // namespace horing::check
