#include "base/watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "../sanitizer.h"
#include "base/fd.h"

namespace horing {
namespace {

using Descriptors = std::vector<int>;
constexpr int kSoonMs = 10'000, kNowMs = 20;

// Two ends of a stream.
struct Stream {
  Stream() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    near.reset(ends[0]);
    far.reset(ends[1]);
  }
  void say() const { EXPECT_EQ(::write(far.get(), "x", 1), 1); }
  void hear() const {
    char one;
    EXPECT_EQ(::read(near.get(), &one, 1), 1);
  }
  Fd near, far;
};

std::unique_ptr<Watch> makeWatch() {
  return Watch::open().take();
}

TEST(Watch, TellsWhatIsReadyUntilItIsTaken) {
  const auto watch = makeWatch();
  const Stream one, other;
  ASSERT_TRUE(watch->add(one.near.get(), EPOLLIN).ok());
  ASSERT_TRUE(watch->add(other.near.get(), EPOLLIN).ok());
  EXPECT_TRUE(watch->wait(kNowMs).empty());
  other.say();
  EXPECT_EQ(watch->wait(kSoonMs), Descriptors{other.near.get()});
  EXPECT_EQ(watch->wait(kSoonMs), Descriptors{other.near.get()}) << "it was left";
  other.hear();
  EXPECT_TRUE(watch->wait(kNowMs).empty());
  other.say();
  EXPECT_EQ(watch->wait(kSoonMs), Descriptors{other.near.get()});
}

TEST(Watch, TellsOfWritingAndOfTheEnd) {
  const auto watch = makeWatch();
  Stream stream;
  ASSERT_TRUE(watch->add(stream.near.get(), EPOLLIN).ok());
  EXPECT_TRUE(watch->wait(kNowMs).empty());
  watch->change(stream.near.get(), EPOLLIN | EPOLLOUT);
  EXPECT_EQ(watch->wait(kSoonMs).size(), 1u);
  watch->change(stream.near.get(), EPOLLIN);
  while (!watch->wait(kNowMs).empty()) {
  }
  stream.far.reset();
  EXPECT_EQ(watch->wait(kSoonMs).size(), 1u);
}

TEST(Watch, IsWokenDuringAWaitAndBeforeIt) {
  const auto watch = makeWatch();
  watch->wake();
  EXPECT_TRUE(watch->wait(kSoonMs).empty());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(kNowMs));
    watch->wake();
  });
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(watch->wait(kSoonMs).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(kSoonMs));
  other.join();
}

TEST(Watch, ForgetsWhatIsRemovedThoughItWasReady) {
  const auto watch = makeWatch();
  const Stream stream, next;
  ASSERT_TRUE(watch->add(stream.near.get(), EPOLLIN).ok());
  ASSERT_TRUE(watch->add(next.near.get(), EPOLLIN).ok());
  stream.say();
  next.say();
  std::this_thread::sleep_for(std::chrono::milliseconds(10 * kNowMs));  // both are noted
  watch->remove(stream.near.get());
  EXPECT_EQ(watch->wait(kSoonMs), Descriptors{next.near.get()});
}

// Groups that many threads make and end at once.
TEST(Watch, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> heard{0};
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const auto watch = makeWatch();
        const Stream stream;
        if (!watch->add(stream.near.get(), EPOLLIN).ok()) return;
        std::thread peer([&] {
          stream.say();
          watch->wake();
        });
        while (watch->wait(kSoonMs).empty()) {
        }
        peer.join();
        watch->remove(stream.near.get());
        ++heard;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heard, 8 * 50);
}

// The thread of its parent's is not there, and its lock may be held for ever.
TEST(Watch, OfAForkedChildIsItsOwn) {
  if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  Fd::closeInForkedChildren();
  auto watch = makeWatch();
  const Stream stream;
  ASSERT_TRUE(watch->add(stream.near.get(), EPOLLIN).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const auto own = makeWatch();
    const Stream mine;
    const bool added = own->add(mine.near.get(), EPOLLIN).ok();
    mine.say();
    const bool heard = own->wait(kSoonMs).size() == 1;
    own->remove(mine.near.get());
    watch.reset();
    ::_exit(added && heard ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  stream.say();
  EXPECT_EQ(watch->wait(kSoonMs).size(), 1u);
  watch->remove(stream.near.get());
}

}  // namespace
}  // namespace horing
