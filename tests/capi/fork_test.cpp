// Ranks and forked children.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "../temporary_folder.h"
#include "ranks.h"

namespace {

constexpr int kHeardWithinSeconds = 15;
constexpr unsigned kChildLivesSeconds = 30;

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  template <typename T>
  bool put(const T& value) const {
    return ::write(ends[1], &value, sizeof value) == sizeof value;
  }
  template <typename T>
  bool get(T& value) const {
    return ::read(ends[0], &value, sizeof value) == sizeof value;
  }
  int ends[2] = {-1, -1};
};

horingResult_t reduceOne(horingComm_t comm) {
  float x = 1;
  return horingAllReduce(&x, &x, 1, horingFloat, horingSum, comm, nullptr);
}

// Leaves a child that sleeps, reports its number, and is killed.
int dieBeforeItsChild(horingComm_t comm, const Pipe& child_number) {
  if (reduceOne(comm) != horingSuccess) return 2;
  const pid_t child = ::fork();
  if (child == 0) {
    ::sleep(kChildLivesSeconds);
    ::_exit(0);
  }
  if (!child_number.put(child)) return 3;
  return ::kill(::getpid(), SIGKILL);
}

// 0: it learned in time that `lost` is lost.
int hearOfIt(horingComm_t comm, int lost) {
  const auto began = std::chrono::steady_clock::now();
  horingResult_t heard = reduceOne(comm);  // may be the one that the other has finished before it died
  if (heard == horingSuccess) heard = reduceOne(comm);
  const auto took = std::chrono::steady_clock::now() - began;
  const std::string text = horingGetLastError(comm);
  if (heard != horingRemoteError || text.find("rank " + std::to_string(lost)) == std::string::npos ||
      took > std::chrono::seconds(kHeardWithinSeconds)) {
    std::fprintf(stderr, "after %lld ms: %d, %s\n",
                 static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()),
                 heard, text.c_str());
    return 3;
  }
  return 0;
}

// Rank 0 makes the ID, and so hosts the rendezvous.
int runRank(int rank, int lost, const Pipe& ids, const Pipe& child_number) {
  horingUniqueId id;
  if (rank == 0 && (horingGetUniqueId(&id) != horingSuccess || !ids.put(id))) return 10;
  if (rank == 1 && !ids.get(id)) return 11;
  horingComm_t comm = nullptr;
  if (horingCommInitRank(&comm, 2, id, rank) != horingSuccess) return 12;
  return rank == lost ? dieBeforeItsChild(comm, child_number) : hearOfIt(comm, lost);
}

int takePart(const horingUniqueId& id, int rank) {
  horingComm_t comm = nullptr;
  float sum = 1;
  if (horingCommInitRank(&comm, 2, id, rank) != horingSuccess) return 10;
  if (horingAllReduce(&sum, &sum, 1, horingFloat, horingSum, comm, nullptr) != horingSuccess) return 11;
  if (horingCommDestroy(comm) != horingSuccess) return 12;
  return sum == 2 ? 0 : 13;
}

TEST(Fork, ChildrenMeetAtTheRendezvousOfTheirParent) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  for (const int parent : {0, 1, -1}) {
    horingUniqueId id;
    ASSERT_EQ(horingGetUniqueId(&id), horingSuccess);
    pid_t children[2] = {-1, -1};
    for (int rank = 0; rank < 2; ++rank) {
      if (rank == parent) continue;
      children[rank] = ::fork();
      ASSERT_GE(children[rank], 0);
      if (children[rank] == 0) ::_exit(takePart(id, rank));
    }
    if (parent >= 0) {
      EXPECT_EQ(takePart(id, parent), 0) << "the parent, rank " << parent;
    }
    for (int rank = 0; rank < 2; ++rank) {
      if (rank == parent) continue;
      int status = -1;
      ASSERT_EQ(::waitpid(children[rank], &status, 0), children[rank]);
      EXPECT_EQ(status, 0) << "child, rank " << rank << "; the parent is rank " << parent;
    }
  }
}

// What a child does: it is refused the groups of its parent, and has one of its own, over the transport of processes.
int useOwnGroup(const horingComm_t (&of_parent)[2]) {
  for (const horingComm_t group : of_parent)
    if (reduceOne(group) != horingInvalidUsage) return 30;
  horingUniqueId id;
  if (horingGetUniqueId(&id) != horingSuccess) return 31;
  std::atomic<int> done{0};
  onEveryRank(2, [&](int rank) {
    if (takePart(id, rank) == 0) ++done;
  });
  return done == 2 ? 0 : 32;
}

// Two groups share the bell of their process, and a thread of each blocks on it again and again, since the other rank is late, while
// children are forked, use a group of their own and end with their exit handlers.
int forkWhileGroupsBlock(int rank, const horingUniqueId& id) {
  constexpr int kRounds = 60, kChildren = 5, kExitCode = 7;
  horingComm_t groups[2] = {}, later = nullptr;
  if (horingCommInitRank(&groups[0], 2, id, rank) != horingSuccess) return 10;
  if (horingCommSplit(groups[0], 0, rank, &groups[1], nullptr) != horingSuccess) return 11;
  std::atomic<bool> fails{false};
  const auto meet = [&](horingComm_t group, bool is_late) {
    for (int round = 0; round < kRounds && !fails; ++round) {
      if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (reduceOne(group) != horingSuccess) fails = true;
    }
  };
  std::thread first(meet, groups[0], rank == 0), second(meet, groups[1], rank == 1);
  int code = 0;
  for (int i = 0; i < kChildren && code == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int failed = useOwnGroup(groups);
      std::exit(failed ? failed : kExitCode);
    }
    int status = -1;
    if (::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != kExitCode) {
      std::fprintf(stderr, "a child ended with %d\n", status);
      code = 12;
    }
  }
  first.join();
  second.join();
  if (fails) return 13;
  // The files that later links need are still there.
  if (horingCommSplit(groups[0], 0, rank, &later, nullptr) != horingSuccess) return 14;
  if (reduceOne(later) != horingSuccess) return 15;
  for (const horingComm_t group : {later, groups[1], groups[0]})
    if (horingCommDestroy(group) != horingSuccess) return 16;
  return code;
}

TEST(Fork, ChildrenDoNotDisturbTheGroupsThatShareABell) {
  // ThreadSanitizer allows no threads in a forked child. AddressSanitizer takes what the parent's other threads hold for leaks there, and
  // new memory in the place of their stacks for stacks.
  if (horing::test::kSanitizer)
    GTEST_SKIP() << "sanitizers do not follow a process of several threads into its children";
  const horing::test::TemporaryFolder folder;
  const Setting files("HORING_SHM_DIR", folder.path()), only("HORING_TRANSPORTS", "shm");
  const Setting at_once("HORING_SPIN_US", "0"), patience("HORING_TIMEOUT_MS", "20000");
  horingUniqueId id;
  ASSERT_EQ(horingGetUniqueId(&id), horingSuccess);
  pid_t ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = ::fork();
    ASSERT_GE(ranks[rank], 0);
    if (ranks[rank] == 0) ::_exit(forkWhileGroupsBlock(rank, id));
  }
  for (int rank = 0; rank < 2; ++rank) {
    int status = -1;
    ASSERT_EQ(::waitpid(ranks[rank], &status, 0), ranks[rank]);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Fork, AChildThatLivesOnDoesNotHideThatItsParentIsDead) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  // The test is about closed connections, not about silence.
  const Setting no_heartbeat("HORING_HEARTBEAT_MS", "0");
  const Setting patience("HORING_TIMEOUT_MS", "20000");
  for (const char* transport : {"shm", "socket"}) {
    const Setting only("HORING_TRANSPORTS", transport);
    for (const int lost : {0, 1}) {
      const Pipe ids, child_number;
      pid_t ranks[2];
      for (int rank = 0; rank < 2; ++rank) {
        ranks[rank] = ::fork();
        ASSERT_GE(ranks[rank], 0);
        if (ranks[rank] == 0) ::_exit(runRank(rank, lost, ids, child_number));
      }
      int status[2] = {-1, -1};
      for (int rank = 0; rank < 2; ++rank) {
        ASSERT_EQ(::waitpid(ranks[rank], &status[rank], 0), ranks[rank]);
      }
      ASSERT_TRUE(WIFSIGNALED(status[lost])) << transport << ", rank " << lost << ": " << status[lost];
      EXPECT_EQ(status[1 - lost], 0) << transport << ", rank " << lost << " was killed";
      pid_t child = -1;
      ASSERT_TRUE(child_number.get(child));
      EXPECT_EQ(::kill(child, SIGKILL), 0) << "the child did not outlive its parent";
    }
  }
}

}  // namespace
