// A call in which memory runs out fails with an error.
#include <gtest/gtest.h>

#include <vector>

#include "../scarce_memory.h"
#include "comm_ranks.h"
#include "transport/loopback/hub.h"

namespace horing {
namespace {

constexpr int kRanks = 2;

// Threads of one process, which reach for each other's buffers.
class NoMemory : public ::testing::Test {
 protected:
  void meet() {
    root_ = rootOfThisMachine();
    const std::shared_ptr<LoopbackHub> hub = LoopbackHub::create(kRanks).take();
    ranks_ = makeRanks(kRanks, *root_, [&](CommunicatorOptions& options) {
      options.config.debug = "none";
      options.hub = hub;
      options.segments = &segments_;
    });
  }
  Communicator& comm(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  Status sum(int rank, std::vector<float>& data) {
    Call call;
    call.input = reinterpret_cast<const std::byte*>(data.data());
    call.output = reinterpret_cast<std::byte*>(data.data());
    call.count = data.size();
    call.type = DataType::kFloat32;
    return comm(rank).run(call);
  }

  SegmentList segments_;
  std::unique_ptr<RootService> root_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

// Fails each of some allocations in turn: the rank returns its buffers as after any other error, when the other ranks no longer use
// them, and these get the error.
TEST_F(NoMemory, InACallThatReachesForBuffersIsAnErrorLikeOthers) {
  bool ran_out = true;
  for (int64_t enough_for = 0; ran_out; enough_for += 1 + enough_for / 4) {
    meet();
    ASSERT_FALSE(HasFailure());
    Status statuses[kRanks];
    onEveryRank(kRanks, [&](int rank) {
      std::vector<float> data(1 << 16, 1);
      if (rank == 0) allocations_left = enough_for;
      statuses[rank] = sum(rank, data);
      if (rank != 0) return;
      ran_out = allocations_left < 0;
      allocations_left = kNever;
    });
    const bool failed = !statuses[0].ok();
    EXPECT_TRUE(ran_out || !failed) << statuses[0].toString();
    // It was the first to give them up.
    EXPECT_EQ(BufferUsers::of(comm(0).membership().id())->givenUp().message(), statuses[0].message())
        << "memory for " << enough_for;
    // It may have been complete before.
    EXPECT_TRUE(statuses[1].ok() || (failed && statuses[1].code() == Code::kRemoteError))
        << "memory for " << enough_for << ": " << statuses[1].toString();
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace horing
