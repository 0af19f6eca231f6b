#include "perf/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace horing::perf {
namespace {

const Traffic kTraffic;

Layout layoutOf(const char* name, DataType type, int ranks, int rank, uint64_t bytes) {
  return collectiveTest(name).layout({type, ranks, rank, bytes, &kTraffic});
}

std::vector<uint64_t> numbersOf(const std::vector<Stretch>& stretches) {
  std::vector<uint64_t> numbers;
  for (const Stretch& stretch : stretches)
    for (size_t i = 0; i < stretch.count; ++i) numbers.push_back(stretch.first + i);
  return numbers;
}

TEST(Layout, SplitsOnlyBlockCollectivesAmongRanks) {
  const Layout all_reduce = layoutOf("all_reduce", DataType::kFloat32, 3, 1, 1000);
  EXPECT_EQ(all_reduce.argument, 250u);
  EXPECT_EQ(all_reduce.bytes, 1000u);
  for (const char* name : {"all_gather", "gather"}) {
    const Layout gather = layoutOf(name, DataType::kFloat32, 3, 1, 1000);
    EXPECT_EQ(gather.argument, 80u) << name;  // 83 elements fit, a block is a multiple of 16 bytes
    EXPECT_EQ(gather.send.count, 80u) << name;
    EXPECT_EQ(gather.receiveCount(), 240u) << name;
    EXPECT_EQ(gather.bytes, 960u) << name;
  }
  for (const char* name : {"reduce_scatter", "scatter"}) {
    const Layout scatter = layoutOf(name, DataType::kFloat64, 3, 1, 1000);
    EXPECT_EQ(scatter.argument, 40u) << name;
    EXPECT_EQ(scatter.send.count, 120u) << name;
    EXPECT_EQ(scatter.receiveCount(), 40u) << name;
  }
  const Layout exchange = layoutOf("alltoall", DataType::kInt64, 3, 2, 1000);
  EXPECT_EQ(exchange.argument, 40u);
  EXPECT_EQ(exchange.send.first, 240u);
  EXPECT_EQ(exchange.send.count, 120u);
  ASSERT_EQ(exchange.receive.size(), 3u);
  EXPECT_EQ(exchange.receive[1].first, 120u + 80u);
  EXPECT_EQ(layoutOf("all_gather", DataType::kInt8, 4, 0, 8).bytes, 0u);
}

TEST(Layout, DeliversOnlyWhatSomebodySendsAndAllOfIt) {
  for (const CollectiveTest& test : collectiveTests())
    for (const int ranks : {1, 2, 5}) {
      std::set<uint64_t> sent;
      std::set<uint64_t> received;
      for (int r = 0; r < ranks; ++r) {
        const Layout layout = test.layout({DataType::kInt32, ranks, r, 1000, &kTraffic});
        if (test.sends(r, ranks - 1)) {
          const std::vector<uint64_t> numbers = numbersOf({layout.send});
          sent.insert(numbers.begin(), numbers.end());
        }
        if (test.receives(r, ranks - 1)) {
          const std::vector<uint64_t> numbers = numbersOf(layout.receive);
          received.insert(numbers.begin(), numbers.end());
        }
      }
      EXPECT_EQ(sent, received) << test.name << " over " << ranks;
      EXPECT_FALSE(sent.empty()) << test.name;
    }
}

TEST(Layout, SendsMoreToRanksThatAreFurtherOn) {
  const Layout layout = layoutOf("alltoallv", DataType::kFloat32, 4, 1, 96 * 4);
  // Of 384 bytes, a block of which is 96: none to itself, then 64, 128 and 192.
  EXPECT_EQ(layout.argument, 24u);
  EXPECT_EQ(layout.bytes, 384u);
  EXPECT_EQ(layout.send_counts, (std::vector<size_t>{48, 0, 16, 32}));
  EXPECT_EQ(layout.receive_counts, (std::vector<size_t>{16, 0, 48, 32}));
  const Traffic uniform(0);
  const Layout even = collectiveTest("alltoallv").layout({DataType::kFloat32, 4, 1, 384, &uniform});
  EXPECT_EQ(even.send_counts, std::vector<size_t>(4, 24));
}

TEST(Layout, FitsTheSizeOutOfPlaceAndInPlace) {
  for (const CollectiveTest& test : collectiveTests())
    for (int r = 0; r < 3; ++r) {
      const Layout layout = test.layout({DataType::kFloat16, 3, r, 4096, &kTraffic});
      const uint64_t elements = layout.bytes / 2;
      EXPECT_LE(layout.bytes, 4096u) << test.name;
      EXPECT_EQ(std::max(layout.send.count, layout.receiveCount()), elements) << test.name;
      if (!test.in_place) continue;
      ASSERT_EQ(layout.receive.size(), 1u) << test.name;
      EXPECT_LE(layout.send.first + layout.send.count, elements) << test.name;
      EXPECT_LE(layout.receive[0].first + layout.receive[0].count, elements) << test.name;
    }
}

TEST(BusFactor, IsTheShareOfEachByteThatALinkCarries) {
  const std::pair<const char*, double> of_eight[] = {
      {"all_reduce", 1.75}, {"reduce_scatter", 0.875}, {"all_gather", 0.875}, {"broadcast", 1},
      {"reduce", 1},        {"gather", 0.875},         {"scatter", 0.875},    {"alltoall", 0.875},
      {"alltoallv", 0.875}, {"sendrecv", 1},           {"hypercube", 0.875}};
  ASSERT_EQ(std::size(of_eight), collectiveTests().size());
  for (const auto& [name, factor] : of_eight)
    EXPECT_DOUBLE_EQ(collectiveTest(name).bus_factor(8), factor) << name;
  EXPECT_DOUBLE_EQ(collectiveTest("all_reduce").bus_factor(1), 0);
}

}  // namespace
}  // namespace horing::perf
