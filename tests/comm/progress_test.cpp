// The progress loop, with an operation that the test moves.
#include "comm/progress/progress.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "comm/messages/pair_messages.h"
#include "comm/reach/lent_buffers.h"
#include "guarded_test.h"

namespace horing {
namespace {

// One lane of two steps. Each number is a call of poll() that ends a step.
class StepsAtPolls : public Driven, public LaneSteps {
 public:
  explicit StepsAtPolls(std::vector<int> polls) : polls_(std::move(polls)) {}
  bool poll() override {
    const bool moves = !done() && ++count_ == polls_[step_];
    step_ += moves ? 1 : 0;
    return moves;
  }
  bool done() const override { return step_ == polls_.size(); }
  const Status& status() const override { return status_; }
  std::optional<uint64_t> sequence() const override { return std::nullopt; }
  std::string name() const override { return "two steps"; }
  Obstacle obstacle() const override { return {{}, "waits for a poll"}; }
  PeerWaits waits() const override { return {}; }
  const LaneSteps* laneSteps() const override { return this; }
  Pause pause() const override { return Pause::kBriefly; }
  Covers covers() const override { return Covers::kAllMessages; }
  bool tellsOthers() const override { return false; }
  uint32_t roundsPerLook() const override { return 1; }
  size_t laneCount() const override { return 1; }
  int32_t laneStep(size_t) const override { return done() ? -1 : static_cast<int32_t>(step_); }

 private:
  const std::vector<int> polls_;
  int count_ = 0;
  size_t step_ = 0;
  Status status_;
};

// Waits for a stream of CUDA, which comes to it at some time.
class LateStream final : public StepsAtPolls {
 public:
  explicit LateStream(Deadline comes) : StepsAtPolls({1}), comes_(comes) {}
  bool poll() override {
    ++polls;
    return done();
  }
  bool done() const override { return comes_.passed(); }
  Pause pause() const override { return Pause::kForStream; }

  int polls = 0;

 private:
  const Deadline comes_;
};

// A call that makes no progress, or has failed. Notes how often it was reported before it was to record what it waits for.
class StuckCall final : public StepsAtPolls {
 public:
  StuckCall(testing_comm::FakeControl& control, Status own)
      : StepsAtPolls({0}), control_(control), own_(std::move(own)) {}
  const Status& status() const override { return own_; }
  std::optional<uint64_t> sequence() const override { return 0; }
  void recordWaiting(int64_t since_ns) override {
    since_ns_ = since_ns;
    reports_before_ = control_.reports;
    control_.is_closed = true;  // there will be no verdict
  }
  int64_t sinceNs() const { return since_ns_; }
  int reportsBefore() const { return reports_before_; }

 private:
  testing_comm::FakeControl& control_;
  const Status own_;
  int64_t since_ns_ = 0;
  int reports_before_ = -1;
};

// One of its links is lost.
class FailedTransport final : public Transport {
 public:
  const char* name() const override { return "failed"; }
  std::vector<std::byte> address() const override { return {}; }
  bool canReach(std::span<const std::byte>) const override { return false; }
  std::string whyUnreachable(std::span<const std::byte>) const override { return ""; }
  Result<Link*> connect(int, std::span<const std::byte>, const LinkShape&, int) override {
    return progress();
  }
  Status progress() override { return makeStatus(Code::kRemoteError, "a link is lost"); }
  void beginWait() override {}
  int waitFd() const override { return -1; }
  void endWait() override {}
  uint64_t memoryBytes() const override { return 0; }
  RegionAccess* regions() override { return nullptr; }
};

std::vector<std::unique_ptr<Transport>> oneFailedTransport() {
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(std::make_unique<FailedTransport>());
  return transports;
}

// Counts how often it is asked for more.
class CountingSource final : public MessageSource {
 public:
  bool takeNews() override { return false; }
  bool mayHaveMore() override {
    ++asked;
    return false;
  }
  std::optional<Call> take() override { return std::nullopt; }
  Pause pause() const override { return Pause::kUntilRung; }
  bool isOwnThread() const override { return true; }
  bool wantsThread() const override { return false; }
  void finished(uint64_t) override {}
  int wakeFd() const override { return -1; }

  int asked = 0;
};

class ProgressTest : public testing_comm::GuardedTest {
 protected:
  explicit ProgressTest(std::vector<LinkShape> shapes = {},
                        std::vector<std::unique_ptr<Transport>> transports = {})
      : connector_(0, std::move(shapes), std::move(transports)) {}

  std::atomic<int64_t> timeout_ms_{60'000};
  Connector connector_;
  PairMessages messages_{connector_, LinkUse::kBeside, 0, 1, 64, 0, &records_.calls().messages()};
  Registrations registrations_;
  LentBuffers lent_{connector_, nullptr, registrations_};
  Timeline timeline_{clock_, 0};
  Progress progress_{{.guard = guard_,
                      .connector = connector_,
                      .clock = clock_,
                      .timeline = &timeline_,
                      .timeout_ms = timeout_ms_},
                     {.messages = messages_.operation(),
                      .connector = connector_,
                      .lent = lent_,
                      .clock = clock_,
                      .rank = 0,
                      .ranks = 1,
                      .timeout_ms = timeout_ms_,
                      .recorder = records_.calls().messages()},
                     WaitPolicy{}};
};

// A rank that does not spin polls twice in each round: at first, and again before it sleeps.
TEST_F(ProgressTest, ShowsStepsThatEndInTheLastPollBeforeSleep) {
  StepsAtPolls operation({2, 5});
  const Status status =
      progress_.drive({.operation = operation, .deadline = Deadline::after(clock_, 20'000)});
  EXPECT_TRUE(status.ok()) << status.toString();
  const std::string timeline = timeline_.toJson(records_.calls().messages(), records_.launches().messages());
  for (const char* part : {"\"step 0\"", "\"step 1\"", "\"asleep\""})
    EXPECT_NE(timeline.find(part), std::string::npos) << part << " is not in " << timeline;
}

// At most 3150 polls, two for each nap: naps of 20 us would be 4000.
TEST_F(ProgressTest, LooksForAStreamLessOftenTheLongerItTakes) {
  LateStream operation(Deadline::after(clock_, 300));
  const Status status =
      progress_.drive({.operation = operation, .deadline = Deadline::after(clock_, 20'000)});
  EXPECT_TRUE(status.ok()) << status.toString();
  EXPECT_LT(operation.polls, 3200);
}

// A verdict is followed by the flight record at once.
TEST_F(ProgressTest, RecordsWhatACallWaitsForBeforeItsFailureIsReported) {
  for (const Status& own : {Status(), makeStatus(Code::kInvalidUsage, "another size")}) {
    control_.reports = 0;
    control_.is_closed = false;
    const int64_t begun_ns = clock_.nowNs();
    StuckCall operation(control_, own);
    const Status failed = progress_.drive({.operation = operation, .deadline = Deadline::after(clock_, 20)});
    EXPECT_EQ(failed.code(), own.ok() ? Code::kTimeout : own.code()) << failed.toString();
    EXPECT_EQ(operation.reportsBefore(), 0);
    EXPECT_GE(control_.reports, 1);
    EXPECT_GE(operation.sinceNs(), begun_ns);
    EXPECT_LE(operation.sinceNs(), clock_.nowNs());
  }
}

class ProgressAfterAFailure : public ProgressTest {
 protected:
  ProgressAfterAFailure() : ProgressTest({LinkShape()}, oneFailedTransport()) {}
};

TEST_F(ProgressAfterAFailure, StillTakesWhatComesBetweenCalls) {
  CountingSource source;
  progress_.setMessages(source);
  EXPECT_FALSE(progress_.driveForOthers());
  EXPECT_GT(source.asked, 1) << "what arrives in one round is taken in the next, too";
}

TEST_F(ProgressAfterAFailure, AsksNoSourceThatIsDropped) {
  auto source = std::make_unique<CountingSource>();
  progress_.setMessages(*source);
  EXPECT_FALSE(progress_.driveForOthers());
  progress_.dropMessages();
  const int asked = source->asked;
  EXPECT_FALSE(progress_.driveForOthers());
  EXPECT_EQ(source->asked, asked);
}

}  // namespace
}  // namespace horing
