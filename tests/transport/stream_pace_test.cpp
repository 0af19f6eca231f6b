#include "transport/socket/stream_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace horing::tcp {
namespace {

constexpr uint64_t kMessage = 64 << 10;
constexpr int64_t kMillisecond = 1'000'000;

// A stream over a rail that moves so many bytes in a microsecond.
struct Rail {
  double bytes_per_us;
  double queued = 0, moved = 0, busy_us = 0;
  StreamPace pace = {};

  void post() {
    queued += kMessage;
    pace.posted(kMessage);
  }
  void passMs(double ms) {
    const double now = std::min(queued, ms * 1000 * bytes_per_us);
    queued -= now;
    moved += now;
    busy_us += now / bytes_per_us;
  }
  void look(int64_t now_ns) {
    pace.look(static_cast<uint64_t>(queued),
              {static_cast<uint64_t>(moved), static_cast<uint64_t>(busy_us * 1000)}, now_ns);
  }
};

// Keeps 32 messages in two rails as a link does, each where it is moved first, for so many milliseconds.
void fill(std::array<Rail, 2>& rails, int64_t& now_ns, int ms) {
  for (int i = 0; i < ms; ++i) {
    now_ns += kMillisecond;
    for (Rail& rail : rails) {
      rail.passMs(1);
      rail.look(now_ns);
    }
    while (rails[0].queued + rails[1].queued < 32 * kMessage) {
      const bool known = rails[0].pace.nsPerByte() > 0 && rails[1].pace.nsPerByte() > 0;
      const bool second =
          known ? rails[1].pace.finishesInNs(kMessage, now_ns) < rails[0].pace.finishesInNs(kMessage, now_ns)
                : rails[1].queued < rails[0].queued;
      rails[second ? 1 : 0].post();
    }
  }
}

TEST(StreamPace, IsUnknownUntilEnoughHasMoved) {
  Rail rail{25};
  int64_t now_ns = kMillisecond;
  rail.look(now_ns);
  for (int i = 0; i < 64; ++i) rail.post();
  for (int ms = 1; ms < 42; ++ms) {
    rail.passMs(1);
    rail.look(now_ns += kMillisecond);
    EXPECT_EQ(rail.pace.nsPerByte(), 0) << ms;
  }
  rail.passMs(1);
  rail.look(now_ns += kMillisecond);
  EXPECT_NEAR(rail.pace.nsPerByte(), 1000 / 25.0, 0.01);
}

// A program that computes between its calls: nobody looks meanwhile, and small messages are under way when somebody does.
TEST(StreamPace, CountsNoTimeInWhichThereIsNothingToMove) {
  Rail rail{25};
  int64_t now_ns = kMillisecond;
  rail.look(now_ns);
  for (int call = 0; call < 20; ++call) {
    for (int i = 0; i < 32; ++i) rail.post();
    rail.look(now_ns += kMillisecond);
    rail.passMs(1000);
    now_ns += 1000 * kMillisecond;
    rail.post();
    rail.look(now_ns);
  }
  EXPECT_NEAR(rail.pace.nsPerByte(), 1000 / 25.0, 0.01);
}

TEST(StreamPace, SharesMessagesInProportion) {
  for (const double slow : {25.0, 12.5, 5.0, 1.0}) {
    std::array<Rail, 2> rails = {Rail{25}, Rail{slow}};
    int64_t now_ns = 0;
    fill(rails, now_ns, 500);
    const double before = rails[0].moved + rails[1].moved;
    fill(rails, now_ns, 500);
    EXPECT_GT(rails[0].moved + rails[1].moved - before, 0.97 * 500e3 * (25 + slow)) << slow;
    EXPECT_NEAR(rails[0].pace.nsPerByte(), 1000 / 25.0, 2);
    EXPECT_NEAR(rails[1].pace.nsPerByte(), 1000 / slow, 0.1 * 1000 / slow) << slow;
  }
}

TEST(StreamPace, FollowsARailThatBecomesSlowAndFastAgain) {
  std::array<Rail, 2> rails = {Rail{25}, Rail{25}};
  int64_t now_ns = 0;
  for (const double rate : {5.0, 25.0}) {
    rails[1].bytes_per_us = rate;
    fill(rails, now_ns, 1000);
    const double before = rails[1].moved;
    fill(rails, now_ns, 500);
    EXPECT_NEAR(rails[1].moved - before, 500e3 * rate, 0.1 * 500e3 * rate) << rate;
  }
}

// After an outage a rail seems so slow that nothing is sent over it.
TEST(StreamPace, OfAStreamThatGetsNothingIsForgotten) {
  StreamPace pace;
  int64_t now_ns = kMillisecond;
  pace.look(0, {}, now_ns);
  pace.look(0, {2 << 20, 5'000'000'000}, now_ns += kMillisecond);
  const double slow = pace.nsPerByte();
  ASSERT_GT(slow, 2000);
  for (int i = 0; i < 10'500; ++i) pace.look(0, {2 << 20, 5'000'000'000}, now_ns += kMillisecond);
  EXPECT_NEAR(pace.nsPerByte(), slow / 1024, 0.01);
}

}  // namespace
}  // namespace horing::tcp
