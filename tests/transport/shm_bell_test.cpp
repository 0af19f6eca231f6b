// Bells that the ranks of a process share: no ring is lost, and links to a known process take no descriptors.
#include <poll.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../open_descriptors.h"
#include "contract_ranks.h"
#include "shm_folder.h"
#include "transport/shm/bell.h"

namespace horing::testing {
namespace {

bool isReadable(int fd, int64_t patience_ms = 0) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(patience_ms)) == 1;
}

// A bell, and the other end of it.
struct Bell {
  Bell()
      : own(ShmBell::make(folder.path()).take()),
        peers(ShmPeerBell::open(folder.path(), own->stem()).take()) {
    EXPECT_TRUE(own->open().ok());
  }
  int fd() const { return own->open().take(); }
  void ring(DoorbellFlag& flag) const { DoorbellButton(&flag, peers->fd()).press(); }

  const ShmFolder folder;
  const std::shared_ptr<ShmBell> own;
  const std::shared_ptr<const ShmPeerBell> peers;
};

TEST(ShmBells, AreNotSilencedByARankThatWasNotRung) {
  const Bell bell;
  DoorbellFlag rung{}, other{};
  bell.own->beginWait(&rung);
  bell.own->beginWait(&other);
  bell.ring(rung);
  bell.own->endWait(&other);
  EXPECT_TRUE(isReadable(bell.fd())) << "the one that was rung blocks only now";
  bell.own->endWait(&rung);
  EXPECT_FALSE(isReadable(bell.fd()));
  bell.ring(rung);
  EXPECT_FALSE(isReadable(bell.fd())) << "nobody waits";
}

// Ranks that wait for their turns, which a peer gives one after the other.
TEST(ShmBells, WakeEachOfManyThatBlock) {
  constexpr int kWaiters = 4, kTurns = 500;
  struct Waiter {
    DoorbellFlag flag{};
    std::atomic<int> given{0}, taken{0};
    int lost = 0;
  };
  const Bell bell;
  std::vector<Waiter> waiters(kWaiters);
  const auto take = [&](Waiter& self) {
    for (int turn = 1; turn <= kTurns; ++turn) {
      while (self.given < turn) {
        bell.own->beginWait(&self.flag);
        if (self.given < turn && !isReadable(bell.fd(), kPatienceMs)) ++self.lost;
        bell.own->endWait(&self.flag);
        if (self.lost > 0) return;
      }
      self.taken = turn;
    }
  };
  const auto give = [&](Waiter& to) {
    for (int turn = 1; turn <= kTurns && to.lost == 0; ++turn) {
      to.given = turn;
      bell.ring(to.flag);
      while (to.taken < turn && to.lost == 0) std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (Waiter& waiter : waiters) {
    threads.emplace_back(take, std::ref(waiter));
    threads.emplace_back(give, std::ref(waiter));
  }
  for (std::thread& thread : threads) thread.join();
  for (const Waiter& waiter : waiters) EXPECT_EQ(waiter.taken, kTurns) << waiter.lost << " rings lost";
}

// Two ranks of a communicator, linked.
class LinkedPair {
 public:
  LinkedPair(const ShmFolder& folder, const std::string& job) {
    for (const int rank : {0, 1}) {
      ShmOptions options = folder.options(rank);
      options.job = job;
      auto made = makeShmTransport(options);
      EXPECT_TRUE(made.ok()) << made.status().toString();
      ranks_.push_back(made.take());
    }
    const LinkShape shape{.channels = 1, .slots = 2, .slot_bytes = 256};
    const auto low = ranks_[0]->connect(1, ranks_[1]->address(), shape),
               high = ranks_[1]->connect(0, ranks_[0]->address(), shape);
    EXPECT_TRUE(low.ok() && high.ok()) << low.status().toString() << high.status().toString();
    if (!low.ok() || !high.ok()) return;
    for (int round = 0; round < 10; ++round)
      for (const auto& rank : ranks_) EXPECT_TRUE(rank->progress().ok());
    is_linked_ = low.value()->established() && high.value()->established();
  }
  bool isLinked() const { return is_linked_; }
  int bell(size_t rank) const { return ranks_[rank]->waitFd(); }

 private:
  std::vector<std::unique_ptr<Transport>> ranks_;
  bool is_linked_ = false;
};

TEST(ShmBells, AreSharedByTheCommunicatorsOfAProcess) {
  const ShmFolder folder;
  const LinkedPair first(folder, "0");
  ASSERT_TRUE(first.isLinked());
  EXPECT_NE(first.bell(0), first.bell(1)) << "ranks of one communicator do not wake each other";
  const int before = test::openDescriptors();
  std::vector<std::unique_ptr<LinkedPair>> others;
  for (int number = 1; number < 20; ++number) {
    others.push_back(std::make_unique<LinkedPair>(folder, std::to_string(number)));
    ASSERT_TRUE(others.back()->isLinked());
  }
  EXPECT_EQ(test::openDescriptors(), before);
}

TEST(ShmBells, AreMadeAnewWhereTheirFilesWereClearedAway) {
  const ShmFolder folder;
  const auto first = makeShmTransport(folder.options(0)).take();
  for (const std::string& name : folder.entries()) std::filesystem::remove(folder.path() + "/" + name);
  EXPECT_TRUE(LinkedPair(folder, "second").isLinked());
}

TEST(ShmBells, LeaveNothingBehind) {
  const ShmFolder folder;
  const int before = test::openDescriptors();
  EXPECT_TRUE(LinkedPair(folder, "job").isLinked());
  EXPECT_EQ(folder.entries(), std::vector<std::string>{});
  EXPECT_EQ(test::openDescriptors(), before);
}

}  // namespace
}  // namespace horing::testing
