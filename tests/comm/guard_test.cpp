// The error that ends a communicator: which one sticks, which ranks get it, and how long a rank waits for its cause.
#include "comm/guard/guard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "guarded_test.h"

namespace horing {
namespace {

class GuardTest : public testing_comm::GuardedTest {
 protected:
  Status remote() { return makeStatus(Code::kRemoteError, "the link to rank 1 broke"); }
  int64_t msOf(const std::function<void()>& what) {
    const int64_t begun_ns = clock_.nowNs();
    what();
    return (clock_.nowNs() - begun_ns) / 1'000'000;
  }
};

TEST_F(GuardTest, TheFirstErrorSticksAndIsToldOnce) {
  EXPECT_EQ(guard_.fail(makeStatus(Code::kInvalidUsage, "first")).message(), "first");
  EXPECT_EQ(guard_.fail(makeStatus(Code::kTimeout, "second")).message(), "first");
  EXPECT_EQ(guard_.mayBegin().message(), "first");
  EXPECT_EQ(guard_.asyncError().message(), "first");
  EXPECT_EQ(control_.announced, std::vector<std::string>{"first"});
  EXPECT_FALSE(guard_.isWell());
}

TEST_F(GuardTest, AnEchoBecomesItsCause) {
  control_.news = makeStatus(Code::kRemoteError, "rank 1 was killed");
  EXPECT_EQ(guard_.fail(remote()).message(), "rank 1 was killed");
  EXPECT_TRUE(control_.announced.empty()) << "the others have heard it from where it comes";
}

TEST_F(GuardTest, DoesNotWaitForNewsOfARendezvousThatHasClosed) {
  control_.is_closed = true;
  Status failed;
  EXPECT_LT(msOf([&] { failed = guard_.fail(remote()); }), 2000)
      << "of 4500 that it waits for one that is there";
  EXPECT_EQ(failed.message(), remote().message());
}

TEST_F(GuardTest, LetsOneThreadIn) {
  const ExclusiveUse inside = guard_.enter();
  ASSERT_TRUE(inside.owns());
  EXPECT_FALSE(guard_.enter().owns());
  EXPECT_TRUE(guard_.asyncError().ok()) << "the call that is inside will tell";
  const Status why = makeStatus(Code::kTimeout, "no turn");
  EXPECT_EQ(guard_.breakOff(why).message(), "no turn");
  EXPECT_EQ(control_.announced, std::vector<std::string>{"no turn"});
  bool looked = false;
  guard_.lookBetweenCalls([&] { looked = true; });
  EXPECT_FALSE(looked);
  {
    const Away away = guard_.away();
    guard_.lookBetweenCalls([&] { looked = true; });
  }
  EXPECT_TRUE(looked) << "while the call waits for the rendezvous";
}

// A rank that lives and is late is no error, and the log names it once.
TEST_F(GuardTest, TellsWhomACallHasWaitedForTenSeconds) {
  const auto info = [](const char* name) {
    return name == std::string_view("HORING_DEBUG") ? "info" : nullptr;
  };
  const Log log = Config::fromLookup(info).take().log(0);
  CallLog calls;
  Watchdog watchdog(calls, control_, clock_, log, aborted_);
  calls.beginExchange();
  const auto saidAfter = [&](int64_t seconds) {
    ::testing::internal::CaptureStderr();
    watchdog.look(std::nullopt, seconds * 1'000'000'000,
                  [] { return Obstacle{.text = "rank 1 is not here"}; });
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(saidAfter(0), "");
  EXPECT_EQ(saidAfter(9), "");
  EXPECT_NE(saidAfter(12).find("has waited for 12 s: rank 1 is not here"), std::string::npos);
  EXPECT_EQ(saidAfter(100), "");
  EXPECT_EQ(saidAfter(0), "") << "it goes on";
  EXPECT_NE(saidAfter(10).find("for 10 s"), std::string::npos);
  calls.endExchange();
}

TEST_F(GuardTest, SaysGoodbyeUnlessSomethingIsWrong) {
  guard_.leave();
  EXPECT_EQ(control_.goodbyes, 1);
  EXPECT_EQ(guard_.mayBegin().code(), Code::kInvalidUsage);
  aborted_ = true;
  guard_.leave();
  EXPECT_EQ(control_.goodbyes, 1);
}

}  // namespace
}  // namespace horing
