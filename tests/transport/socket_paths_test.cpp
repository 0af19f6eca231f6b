// A link of two streams, one of whose paths stops working.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <functional>

#include "transport/socket/link.h"

namespace horing::tcp {
namespace {

constexpr LinkShape kShape{2, 4, 256};

// Forwards bytes between two sockets until it is cut; bytes in flight are then lost.
class Path {
 public:
  Path() {
    for (auto* side : {&left_, &right_}) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
      side->outer = Fd(ends[0]);
      side->inner = Fd(ends[1]);
    }
  }
  Fd takeLeft() { return std::move(left_.outer); }
  Fd takeRight() { return std::move(right_.outer); }
  void cut() { is_cut_ = true; }
  void carry() {
    if (is_cut_) return;
    forward(left_.inner, right_.inner);
    // Of the accepting end's first word the connecting end's Dial would have taken care.
    FrameHeader ready;
    if (!was_ready_ && ::recv(right_.inner.get(), &ready, sizeof ready, MSG_DONTWAIT) != sizeof ready) return;
    was_ready_ = true;
    forward(right_.inner, left_.inner);
  }

 private:
  struct Side {
    Fd outer, inner;
  };
  static void forward(const Fd& from, const Fd& to) {
    std::array<char, 4096> bytes;
    const ssize_t got = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      EXPECT_EQ(::send(to.get(), bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL), got);
    }
  }
  Side left_, right_;
  bool was_ready_ = false;
  bool is_cut_ = false;
};

class Paths : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(poller_.open().ok());
    for (size_t stream = 0; stream < 2; ++stream) {
      low_.attach(stream, WatchedFd(paths_[stream].takeLeft(), poller_), 1);
      high_.attach(stream, WatchedFd(paths_[stream].takeRight(), poller_), 1);
    }
    turn(20);
    ASSERT_TRUE(low_.isOpen(0) && low_.isOpen(1) && high_.isOpen(0) && high_.isOpen(1));
  }
  void turn(int times = 1) {
    for (int i = 0; i < times; ++i) {
      poller_.poll();
      for (SocketLink* link : {&low_, &high_}) link->progress(SocketLink::Effort::kThorough);
      for (Path& path : paths_) path.carry();
    }
  }
  // Posts what there is room for, up to this number.
  static void post(SocketLink& link, int channel, uint32_t& posted, uint32_t most) {
    while (posted < most) {
      std::byte* const slot = link.sender(channel).tryAcquire(kWholeSlot);
      if (!slot) return;
      std::memcpy(slot, &posted, sizeof posted);
      link.sender(channel).post(200, posted++);
    }
  }
  static void take(SocketLink& link, int channel, uint32_t& taken) {
    while (const Message* message = link.receiver(channel).tryPeek()) {
      uint32_t number = 0;
      std::memcpy(&number, message->data, sizeof number);
      EXPECT_EQ(number, taken);
      EXPECT_EQ(message->tag, taken);
      ++taken;
      link.receiver(channel).release();
    }
  }
  // Both send that many messages on both channels, whose path is cut after some.
  void exchange(uint32_t messages, uint32_t cut_after, const std::function<void()>& when_cut) {
    uint32_t posted[2][2] = {}, taken[2][2] = {};
    SocketLink* const links[2] = {&low_, &high_};
    bool cut = false;
    for (int rounds = 0; rounds < 10'000; ++rounds) {
      bool all = true;
      for (int end = 0; end < 2; ++end)
        for (int channel = 0; channel < 2; ++channel) {
          post(*links[end], channel, posted[end][channel], messages);
          take(*links[end], channel, taken[end][channel]);
          all = all && taken[end][channel] == messages;
        }
      if (!cut && taken[1][0] >= cut_after) {
        cut = true;
        paths_[1].cut();
        turn(3);
        when_cut();
      }
      turn();
      ASSERT_TRUE(low_.status().ok()) << low_.status().message();
      ASSERT_TRUE(high_.status().ok()) << high_.status().message();
      if (all) return;
    }
    FAIL() << "it stands still at " << taken[0][0] << " " << taken[0][1] << " " << taken[1][0] << " "
           << taken[1][1];
  }

  Poller poller_;
  std::array<Path, 2> paths_;
  LentMemory lent_;
  DataMoved moved_;
  LinkOptions optionsOf(int rank) {
    return {.rank = rank,
            .peer = 1 - rank,
            .shape = kShape,
            .stream_names = {"one", "two"},
            .lent = &lent_,
            .moved = &moved_};
  }
  SocketLink low_{optionsOf(0)}, high_{optionsOf(1)};
};

TEST_F(Paths, WhatADeadOneLostGoesByTheOther) {
  exchange(100, 40, [&] { low_.giveUp(1); });
  EXPECT_TRUE(high_.isGivenUp(1));
  EXPECT_TRUE(low_.complete() && high_.complete());
}

TEST_F(Paths, BothEndsMayGiveOneUpAtOnce) {
  exchange(100, 17, [&] {
    low_.giveUp(1);
    high_.giveUp(1);
  });
}

TEST(StreamState, IsDroppedBeforeItIsReplacedOrGivenUp) {
  using enum StreamState;
  for (const StreamState next : {kReserve, kMissing, kAttached, kOpen, kGivenUp}) {
    for (const StreamState now : {kReserve, kMissing})
      EXPECT_EQ(mayFollow(now, next), next == kAttached || next == kGivenUp);
    EXPECT_EQ(mayFollow(kAttached, next), next == kOpen || next == kMissing);
    EXPECT_EQ(mayFollow(kOpen, next), next == kMissing);
    EXPECT_FALSE(mayFollow(kGivenUp, next)) << "it is for good";
  }
}

TEST_F(Paths, LeaveInOrderOverWhatIsLeft) {
  exchange(20, 10, [&] { high_.giveUp(1); });
  bool left = false;
  for (int i = 0; i < 100 && !left; ++i) {
    const bool low = low_.leave(), high = high_.leave();
    left = low && high;
    turn();
  }
  EXPECT_TRUE(left);
  EXPECT_TRUE(low_.status().ok() && high_.status().ok());
}

}  // namespace
}  // namespace horing::tcp
