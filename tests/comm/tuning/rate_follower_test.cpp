// Ranks that follow rates which the test makes up.
#include "comm/tuning/rate_follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../sanitizer.h"
#include "../comm_ranks.h"
#include "comm/tuning/calibration.h"
#include "selection/selection.h"

namespace horing {
namespace {

constexpr int kGroups = 3;
constexpr size_t kCallBytes = 16 << 20;
constexpr int64_t kOneCallNs = 250'000'000;
constexpr double kMeasurementNs = 150e6;
const std::vector<double> kEqual(kGroups, 100), kOneSlow{100, 100, 40};

class RateFollowing : public testing::Test {
 protected:
  void SetUp() override { make(); }
  void make(int64_t init_timeout_ms = 60'000) {
    ranks_ = makeRanks(kGroups, *root_, [&](CommunicatorOptions& options) {
      options.config.group = std::to_string(options.rank);
      options.config.init_timeout_ms = init_timeout_ms;
    });
    ASSERT_FALSE(HasFailure());
  }
  // The communicator follows equal rates, and a measurement of them.
  RateFollower followerOf(int rank, RateFollower::Measure measure) {
    Choices choices = at(rank).choices();
    choices.rates = kEqual;
    at(rank).choose(std::move(choices));
    return {at(rank), kMeasurementNs, std::move(measure)};
  }
  Communicator& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  static std::string algorithmOf(const Communicator& comm, size_t bytes = kCallBytes) {
    return comm.selector()->select(Collective::kAllReduce, bytes).algorithm->name;
  }

  std::unique_ptr<RootService> root_ = rootOfThisMachine();
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

// Each time one rank is late, for which the others wait: only the fastest counts.
TEST_F(RateFollowing, ChangesThePlanOfAllRanksAtTheSameCall) {
  std::vector<std::vector<std::string>> algorithms(kGroups);  // by rank, then by call
  std::vector<int> measurements(kGroups);
  onEveryRank(kGroups, [&](int rank) {
    const std::string equally = algorithmOf(at(rank));
    std::vector<double> now = kEqual;
    int64_t call_ns = kOneCallNs;
    RateFollower follower = followerOf(rank, [&](Communicator&) -> Result<GroupRates> {
      ++measurements[static_cast<size_t>(rank)];
      return GroupRates{now, kMeasurementNs};
    });
    for (int i = 0; i < 60; ++i) {
      if (i == 20) now = kOneSlow, call_ns *= 2;
      if (i == 40) now = kEqual, call_ns /= 2;
      ASSERT_TRUE(follower.ended(kCallBytes, i % kGroups == rank ? call_ns : 4 * call_ns).ok());
      const std::string name = algorithmOf(at(rank));
      algorithms[static_cast<size_t>(rank)].push_back(name == equally ? "equal" : name);
    }
    EXPECT_TRUE(at(rank).leave().ok());
  });
  std::vector<std::string> due(60, "equal");
  std::fill(due.begin() + 21, due.begin() + 41, kUnequalAlgorithm);
  for (const std::vector<std::string>& each : algorithms) EXPECT_EQ(each, due);
  for (const int each : measurements) EXPECT_EQ(each, 2);
}

TEST_F(RateFollowing, ReportsAMeasurementThatFails) {
  onEveryRank(kGroups, [&](int rank) {
    RateFollower follower = followerOf(
        rank, [](Communicator&) -> Result<GroupRates> { return makeStatus(Code::kRemoteError, "made up"); });
    Status status;
    for (int i = 0; i < 20 && status.ok(); ++i)
      status = follower.ended(kCallBytes, i < 10 ? kOneCallNs : 2 * kOneCallNs);
    EXPECT_EQ(status.message(), "made up");
    EXPECT_TRUE(at(rank).leave().ok());
  });
}

class Heard final : public CallObserver {
 public:
  explicit Heard(std::vector<size_t>& bytes) : bytes_(bytes) {}
  Status ended(size_t bytes, int64_t took_ns) override {
    EXPECT_GT(took_ns, 0);
    bytes_.push_back(bytes);
    return {};
  }

 private:
  std::vector<size_t>& bytes_;
};

TEST_F(RateFollowing, HearsOfLargeAllReducesOnly) {
  onEveryRank(kGroups, [&](int rank) {
    std::vector<size_t> heard;
    at(rank).observeCalls(std::make_unique<Heard>(heard));
    std::vector<double> input(40'000), output(input.size() * kGroups);
    Call call;
    call.input = reinterpret_cast<const std::byte*>(input.data());
    call.output = reinterpret_cast<std::byte*>(output.data());
    call.type = DataType::kFloat64;
    for (const size_t count : {size_t{1}, input.size()})
      for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
        call.collective = collective;
        call.count = count;
        ASSERT_TRUE(at(rank).run(call).ok());
      }
    EXPECT_EQ(heard, std::vector<size_t>{input.size() * sizeof(double)});
    EXPECT_TRUE(at(rank).leave().ok());
  });
}

// A rank that comes late to a look has as long as to any operation, and other threads are kept out.
TEST_F(RateFollowing, LooksAreAPartOfTheCall) {
  class Late final : public CallObserver {
   public:
    Late(Communicator& communicator, int rank) : communicator_(communicator), rank_(rank) {}
    Status ended(size_t, int64_t) override {
      std::thread([&] {
        EXPECT_EQ(communicator_.allGather({}).status().code(), Code::kInvalidUsage);
      }).join();
      if (rank_ == 1) std::this_thread::sleep_for(std::chrono::milliseconds(test::kShortDeadlineMs * 3 / 2));
      EXPECT_TRUE(numbersOfAll(communicator_, rank_).ok());
      return rank_ == 2 ? makeStatus(Code::kSystemError, "made up") : Status();
    }

   private:
    Communicator& communicator_;
    const int rank_;
  };
  onEveryRank(kGroups, [&](int rank) { EXPECT_TRUE(at(rank).leave().ok()); });
  root_ = rootOfThisMachine();
  ASSERT_NO_FATAL_FAILURE(make(test::kShortDeadlineMs));
  onEveryRank(kGroups, [&](int rank) {
    at(rank).observeCalls(std::make_unique<Late>(at(rank), rank));
    std::vector<double> data(40'000);
    Call call;
    call.input = reinterpret_cast<const std::byte*>(data.data());
    call.output = reinterpret_cast<std::byte*>(data.data());
    call.type = DataType::kFloat64;
    call.collective = Collective::kAllReduce;
    call.count = data.size();
    const Status status = at(rank).run(call);
    EXPECT_EQ(status.ok(), rank != 2) << status.toString();
    // An error of a look sticks, and the others hear of it.
    EXPECT_FALSE(at(rank).allGather({}).ok());
    (void)at(rank).leave();
  });
}

// Rank 1 takes the message of the program only after the measurement, in which both ranks exchange messages, too.
TEST_F(RateFollowing, LeavesMessagesOfTheProgramAlone) {
  constexpr int kTold = 4711;
  onEveryRank(kGroups, [&](int rank) {
    int number = rank == 0 ? kTold : 0;
    auto* const bytes = reinterpret_cast<std::byte*>(&number);
    const auto tell = [&](const Transfer::Kind& kind, int peer) {
      const Transfer transfer{.kind = kind, .peer = peer, .bytes = sizeof number};
      EXPECT_TRUE(at(rank).messages().exchange({&transfer, 1}).ok());
    };
    // The first message makes the link, which needs both.
    for (int i = 0; i < 2; ++i) {
      if (rank == 0) tell(Transfer::Send{bytes}, 1);
      if (rank == 1 && i == 0) tell(Transfer::Receive{bytes}, 0);
    }
    if (rank == 1) number = 0;
    const Result<GroupRates> measured = measureGroupRates(at(rank), 60'000);
    ASSERT_TRUE(measured.ok()) << measured.status().message();
    ASSERT_EQ(measured.value().by_group.size(), size_t{kGroups});
    for (const double rate : measured.value().by_group) EXPECT_GT(rate, 0);
    EXPECT_GT(measured.value().took_ns, 0);
    if (rank == 1) tell(Transfer::Receive{bytes}, 0);
    EXPECT_EQ(number, rank <= 1 ? kTold : 0);
    EXPECT_TRUE(at(rank).leave().ok());
  });
}

}  // namespace
}  // namespace horing
