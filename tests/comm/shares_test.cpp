// Communicators that learn other rates between two calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm_ranks.h"
#include "transport/loopback/hub.h"

namespace horing {
namespace {

constexpr int kGroups = 3;

// Groups fold in an order that depends on the group that reduces an element: group g adds its own input last. So the sum of these inputs,
// which cancel each other, shows where it was made.
constexpr double kInputs[kGroups] = {1e17, 1, -1e17};
constexpr double kSumAtGroup[kGroups] = {0, 1, 0};

TEST(LaterShares, MakeANewPlan) {
  const std::unique_ptr<RootService> root = rootOfThisMachine();
  const std::shared_ptr<LoopbackHub> hub = LoopbackHub::create(kGroups).take();
  const auto ranks = makeRanks(kGroups, *root, [&](CommunicatorOptions& options) {
    options.hub = hub;
    options.config.group = std::to_string(options.rank);
  });
  ASSERT_FALSE(HasFailure());
  onEveryRank(kGroups, [&](int rank) {
    Communicator& comm = *ranks[static_cast<size_t>(rank)];
    std::vector<double> input(40'000, kInputs[rank]), output(input.size());
    Call call;
    call.input = reinterpret_cast<const std::byte*>(input.data());
    call.output = reinterpret_cast<std::byte*>(output.data());
    call.count = input.size();
    call.type = DataType::kFloat64;
    for (const size_t reducer : {0, 1, 2, 1}) {
      Choices choices = comm.choices();
      choices.rates.assign(kGroups, 0.01);
      choices.rates[reducer] = 1;  // so that it reduces everything
      comm.choose(std::move(choices));
      ASSERT_TRUE(comm.run(call).ok());
      ASSERT_EQ(std::count(output.begin(), output.end(), kSumAtGroup[reducer]),
                static_cast<std::ptrdiff_t>(output.size()))
          << "reduced by group " << reducer << ": " << output[0];
    }
    EXPECT_TRUE(comm.leave().ok());
  });
}

// The slowest group of the tree changes, and so do the links that it needs.
TEST(LaterRates, MakeANewTree) {
  const std::unique_ptr<RootService> root = rootOfThisMachine();
  const auto ranks = makeRanks(kGroups, *root, [&](CommunicatorOptions& options) {
    options.config.group = std::to_string(options.rank);
  });
  ASSERT_FALSE(HasFailure());
  onEveryRank(kGroups, [&](int rank) {
    Communicator& comm = *ranks[static_cast<size_t>(rank)];
    std::vector<int32_t> values(40'000);
    Call call;
    call.collective = Collective::kBroadcast;
    call.input = call.output = reinterpret_cast<std::byte*>(values.data());
    call.count = values.size();
    call.type = DataType::kInt32;
    for (const int slow : {1, 2, 0, 1}) {
      Choices choices = comm.choices();
      choices.rates.assign(kGroups, 1);
      choices.rates[static_cast<size_t>(slow)] = 0.5;
      comm.choose(std::move(choices));
      EXPECT_EQ(comm.selector()->select(call.collective, 160'000).shape.by_speed.back(), slow);
      for (call.root = 0; call.root < kGroups; ++call.root) {
        const int32_t value = 10 * slow + call.root + 1;
        std::fill(values.begin(), values.end(), rank == call.root ? value : 0);
        ASSERT_TRUE(comm.run(call).ok());
        ASSERT_EQ(std::count(values.begin(), values.end(), value), std::ssize(values));
      }
    }
    EXPECT_TRUE(comm.leave().ok());
  });
}

}  // namespace
}  // namespace horing
