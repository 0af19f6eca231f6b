// Communicators that learn other shares between two calls.
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
      std::vector<int32_t> parts(kGroups);
      parts[reducer] = Shares::kWhole;
      Choices choices = comm.choices();
      choices.shares = Shares(std::move(parts));
      comm.choose(std::move(choices));
      ASSERT_TRUE(comm.run(call).ok());
      ASSERT_EQ(std::count(output.begin(), output.end(), kSumAtGroup[reducer]),
                static_cast<std::ptrdiff_t>(output.size()))
          << "reduced by group " << reducer << ": " << output[0];
    }
    EXPECT_TRUE(comm.leave().ok());
  });
}

}  // namespace
}  // namespace horing
