// Silent members, on a simulated clock; and both ends of a control connection that fall silent.
#include "control/liveness.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "control/control_messages.h"
#include "control/host_addresses.h"
#include "control/root_connection.h"
#include "control_ranks.h"

namespace horing {
namespace {

using namespace testing_comm;

constexpr int64_t kMs = 1'000'000;

TEST(Liveness, LosesWhoIsSilentForSevenBeats) {
  Liveness liveness;
  EXPECT_EQ(liveness.nextLookNs(), INT64_MAX);
  for (const int member : {0, 1, 2}) liveness.watch(member, 500, 0);
  std::vector<int> silent;
  int64_t now_ns = 0;
  for (; silent.empty() && now_ns < 10'000 * kMs; now_ns += 250 * kMs) {
    liveness.heard(0, now_ns);
    if (now_ns <= 1000 * kMs) liveness.heard(1, now_ns);
    liveness.heard(2, now_ns);
    silent = liveness.look(now_ns);
  }
  EXPECT_EQ(silent, std::vector<int>{1});
  EXPECT_GE(now_ns, (1000 + kBeatsMissed * 500) * kMs);
  EXPECT_LE(now_ns, (1000 + kBeatsMissed * 500 + 1000) * kMs);
  EXPECT_EQ(liveness.patienceMs(1), 3500);
}

TEST(Liveness, KnowsSinceWhenAMemberIsSilent) {
  Liveness liveness;
  liveness.watch(1, 500, 0);
  liveness.heard(1, 1000 * kMs);
  EXPECT_EQ(liveness.silenceNs(1, 2600 * kMs), 1600 * kMs);
  EXPECT_EQ(liveness.silenceNs(0, 2600 * kMs), 0) << "it is not watched";
}

TEST(Liveness, NamesThoseTogetherWhoFellSilentTogether) {
  Liveness liveness;
  for (const int member : {0, 1, 2, 3}) liveness.watch(member, 500, member * 100 * kMs);
  std::vector<int> silent;
  for (int64_t now_ns = 0; silent.empty() && now_ns < 10'000 * kMs; now_ns += 100 * kMs) {
    liveness.heard(0, now_ns);
    silent = liveness.look(now_ns);
  }
  EXPECT_EQ(silent, (std::vector<int>{1, 2, 3}));
}

TEST(Liveness, ForgivesSilenceWhileItWasStoppedItself) {
  Liveness liveness;
  liveness.watch(0, 500, 0);
  EXPECT_TRUE(liveness.look(500 * kMs).empty());
  const int64_t woken_ns = 3'600'000 * kMs;
  EXPECT_TRUE(liveness.look(woken_ns).empty());
  // But from here on it counts.
  std::vector<int> silent;
  int64_t now_ns = woken_ns;
  for (; silent.empty() && now_ns < woken_ns + 10'000 * kMs; now_ns += 500 * kMs)
    silent = liveness.look(now_ns);
  EXPECT_EQ(silent, std::vector<int>{0});
  EXPECT_GT(now_ns, woken_ns + 3500 * kMs);
}

TEST(Liveness, WatchesNobodyWhoWasForgotten) {
  Liveness liveness;
  liveness.watch(3, 500, 0);
  liveness.heard(7, 0);
  EXPECT_TRUE(liveness.watches(3));
  EXPECT_FALSE(liveness.watches(2) || liveness.watches(7));
  liveness.forget(3);
  EXPECT_TRUE(liveness.look(3'600'000 * kMs).empty());
  EXPECT_EQ(liveness.nextLookNs(), INT64_MAX);
}

JoinOptions beating(const UniqueId& id, int rank, int ranks) {
  JoinOptions options = joinOptions(id, rank, ranks);
  options.heartbeat_ms = 500;
  return options;
}

// A rank that sends Hello and one heartbeat, then nothing, without closing anything.
std::unique_ptr<ControlChannel> mute(const UniqueId& id, int rank, int ranks) {
  const UniqueIdParts parts = decodeUniqueId(id).take();
  auto channel = connectToRoot(parts, kClock, {in(10'000), nullptr}).take();
  for (const RankMessage& message :
       {RankMessage(HelloMessage{rank, ranks, 10'000, thisProcess()}), RankMessage(BeatMessage{500})})
    channel->send(std::make_shared<const std::vector<std::byte>>(encodeMessage(message)));
  EXPECT_TRUE(channel->flush().ok());
  return channel;
}

TEST(Heartbeat, TellsEverybodyOfARankThatFellSilent) {
  const auto root = startRoot();
  const auto silent = mute(root->id(), 1, 3);
  inThreads(2, [&](int i) {
    auto joined = Control::join(beating(root->id(), 2 * i, 3));
    ASSERT_TRUE(joined.ok()) << joined.status().toString();
    const Status status = waitForError(*joined.value());
    EXPECT_TRUE(mentions(status, "rank 1 (") && mentions(status, "has been silent for 3500 ms"))
        << status.toString();
    EXPECT_EQ(joined.value()->failedRank(), 1);
  });
}

// A proxy between a rank and the rendezvous that forwards until the test stops it.
class Relay {
 public:
  explicit Relay(uint16_t port)
      : root_port_(port), listener_(listenOn(nullptr, 0).take()), thread_([this] { run(); }) {}
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  uint16_t port() const { return listener_.port; }
  void cut() { cut_ = true; }

 private:
  void run() {
    pollfd door{listener_.fd.get(), POLLIN, 0};
    while (!stop_ && ::poll(&door, 1, 20) <= 0) continue;
    if (stop_) return;
    const Fd near(::accept(listener_.fd.get(), nullptr, nullptr));
    Endpoint root = resolveHost({"127.0.0.1", 1}).take().front();
    root.port = root_port_;
    const Fd far = openSocket(root.address.family).take();
    EXPECT_EQ(beginConnect(far.get(), root), 0);
    while (!stop_) {
      pollfd items[] = {{near.get(), POLLIN, 0}, {far.get(), POLLIN, 0}};
      ::poll(items, 2, 20);
      if (cut_) continue;
      if (items[0].revents) forward(near, far);
      if (items[1].revents) forward(far, near);
    }
  }
  static void forward(const Fd& from, const Fd& to) {
    char bytes[65536];
    const ssize_t size = ::recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (size > 0) [[maybe_unused]]
      const ssize_t sent = ::send(to.get(), bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
  }

  uint16_t root_port_;
  Listener listener_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

TEST(Heartbeat, TellsARankOfARendezvousThatFellSilent) {
  const auto root = startRoot();
  Relay relay(root->port());
  UniqueIdParts parts = decodeUniqueId(root->id()).take();
  parts.roots[0].port = relay.port();
  auto joined = Control::join(beating(encodeUniqueId(parts).take(), 0, 1));
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  relay.cut();
  const Status status = waitForError(*joined.value());
  EXPECT_TRUE(mentions(status, "hosts the rendezvous") && mentions(status, "has been silent for 3500 ms"))
      << status.toString();
}

TEST(Heartbeat, IsOffWhenItsIntervalIsZero) {
  const auto root = startRoot();
  Relay relay(root->port());
  UniqueIdParts parts = decodeUniqueId(root->id()).take();
  parts.roots[0].port = relay.port();
  const auto joined = Control::join(joinOptions(encodeUniqueId(parts).take(), 0, 1));
  ASSERT_TRUE(joined.ok()) << joined.status().toString();
  relay.cut();
  EXPECT_FALSE(joined.value()->isOver(2000));
}

}  // namespace
}  // namespace horing
