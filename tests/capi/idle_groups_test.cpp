// The descriptors and threads of groups, and that idle groups learn of a death.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../open_descriptors.h"
#include "../sanitizer.h"
#include "ranks.h"

namespace {

constexpr int kMembers = 8, kVictim = 7;
constexpr int kGroups = 32, kUsedGroups = 8, kManyGroups = 300;
constexpr size_t kElements = size_t{1} << 16;                           // of an all-reduce
constexpr int kDeathHeardWithinSeconds = 15 * horing::test::kSlowdown;  // 5 on cores that are free

// Each rank: its connection to the rendezvous, and the port at which the others would meet it after a shrink.
constexpr int kDescriptorsOfARank = 2;
// The process that hosts the rendezvous: a connection to each rank, and the port to which they may return.
constexpr int kDescriptorsOfAHost = kMembers + 1;
// A process takes these for all groups in which it exchanged data: two for each other process, and its own bell.
constexpr int kDescriptorsOfLinks = 2 * (kMembers - 1) + 1;
// Stacks of its thread, its connection, its records of calls: pages that it has written to.
constexpr int kKibibytesOfARank = 160;

struct Taken {
  int rank = -1, descriptors = 0, threads = 0, kibibytes = 0;
  int descriptors_of_links = 0;  // once some of them were used
};

Taken takenBy(int rank) {
  Taken taken{rank, horing::test::openDescriptors(), horing::test::entriesOf("/proc/self/task")};
  std::FILE* const file = std::fopen("/proc/self/smaps_rollup", "re");
  if (!file) return taken;
  std::array<char, 256> line;
  while (std::fgets(line.data(), line.size(), file))
    if (std::sscanf(line.data(), "Private_Dirty: %d", &taken.kibibytes) == 1) break;
  std::fclose(file);
  return taken;
}

// 0: all groups say in time that the victim is lost.
int hearOfTheVictim(const std::vector<horingComm_t>& groups) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kDeathHeardWithinSeconds);
  for (const horingComm_t group : groups) {
    horingResult_t state = horingSuccess;
    while (horingCommGetAsyncError(group, &state) == horingSuccess && state == horingSuccess &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (state != horingRemoteError) return 20;
    if (std::string(horingGetLastError(group)).find("rank " + std::to_string(kVictim)) == std::string::npos)
      return 21;
  }
  return 0;
}

// By ranks that host in turn, from an ID or as parts of `world`.
bool makeGroup(horingComm_t world, int rank, int number, horingComm_t* group) {
  if (number % 2 == 0) return horingCommSplit(world, 0, rank, group, nullptr) == horingSuccess;
  const int host = number / 2 % kMembers;
  horingUniqueId id{};
  return (rank != host || horingGetUniqueId(&id) == horingSuccess) &&
         horingBroadcast(&id, &id, sizeof id, horingUint8, host, world, nullptr) == horingSuccess &&
         horingCommInitRank(group, kMembers, id, rank) == horingSuccess;
}

// With the limit that a shell sets.
int makeManyGroups(int rank, const horingUniqueId& id, int result) {
  const rlimit usual{.rlim_cur = 1024, .rlim_max = 1024};
  horingComm_t world = nullptr;
  if (::setrlimit(RLIMIT_NOFILE, &usual) != 0) return 15;
  if (horingCommInitRank(&world, kMembers, id, rank) != horingSuccess) return 10;
  std::vector<horingComm_t> groups(kManyGroups, nullptr);
  for (int number = 0; number < kManyGroups; ++number)
    if (!makeGroup(world, rank, number, &groups[static_cast<size_t>(number)])) return 12;
  const Taken taken = takenBy(rank);
  if (::write(result, &taken, sizeof taken) != sizeof taken) return 14;
  float sum = 1;
  if (horingAllReduce(&sum, &sum, 1, horingFloat, horingSum, groups.back(), nullptr) != horingSuccess)
    return 13;
  for (const horingComm_t group : groups)
    if (horingCommDestroy(group) != horingSuccess) return 16;
  return sum == kMembers && horingCommDestroy(world) == horingSuccess ? 0 : 17;
}

// A rank, in a separate process. Returns its exit code.
int beRank(int rank, const horingUniqueId& id, int result) {
  ::setenv("HORING_DEBUG", "none", 1);  // each group would say that the victim is lost
  horingComm_t world = nullptr;
  if (horingCommInitRank(&world, kMembers, id, rank) != horingSuccess) return 10;
  const auto meet = [&] {
    float x = 1;
    return horingAllReduce(&x, &x, 1, horingFloat, horingSum, world, nullptr) == horingSuccess;
  };
  std::vector<horingComm_t> groups(kGroups, nullptr);
  // What the first one brings with it, such as code that is loaded, stays.
  horingComm_t first = nullptr;
  if (horingCommSplit(world, 0, rank, &first, nullptr) != horingSuccess || !meet()) return 11;
  const Taken before = takenBy(rank);
  for (horingComm_t& group : groups)
    if (horingCommSplit(world, 0, rank, &group, nullptr) != horingSuccess) return 12;
  if (!meet()) return 13;
  Taken taken = takenBy(rank);
  for (int number = 0; number < kUsedGroups; ++number) {
    std::vector<float> data(kElements, 1);
    const horingComm_t group = groups[static_cast<size_t>(number)];
    if (horingAllReduce(data.data(), data.data(), data.size(), horingFloat, horingSum, group, nullptr) !=
        horingSuccess)
      return 15;
  }
  taken.descriptors_of_links = horing::test::openDescriptors() - taken.descriptors;
  taken.descriptors -= before.descriptors;
  taken.threads -= before.threads;
  taken.kibibytes -= before.kibibytes;
  if (::write(result, &taken, sizeof taken) != sizeof taken || !meet()) return 14;
  return rank == kVictim ? ::kill(::getpid(), SIGKILL) : hearOfTheVictim(groups);
}

class IdleGroups : public testing::Test {
 protected:
  // What the groups took of each rank.
  std::vector<Taken> run(int (*body)(int, const horingUniqueId&, int), int victim = -1) {
    int result[2], ids[2];
    EXPECT_EQ(::pipe(result), 0);
    EXPECT_EQ(::pipe(ids), 0);
    horingUniqueId id;
    std::vector<pid_t> processes;
    for (int rank = 0; rank < kMembers; ++rank) {
      processes.push_back(::fork());
      if (processes.back() != 0) continue;
      ::close(ids[1]);
      const bool has_id = ::read(ids[0], &id, sizeof id) == sizeof id;
      ::_exit(has_id ? body(rank, id, result[1]) : 18);
    }
    EXPECT_HORING(horingGetUniqueId(&id));
    for (int rank = 0; rank < kMembers; ++rank)
      EXPECT_EQ(::write(ids[1], &id, sizeof id), ssize_t{sizeof id});
    ::close(ids[0]);
    ::close(ids[1]);
    ::close(result[1]);
    std::vector<Taken> all(kMembers);
    for (Taken taken; ::read(result[0], &taken, sizeof taken) == sizeof taken;)
      all[static_cast<size_t>(taken.rank)] = taken;
    ::close(result[0]);
    for (int rank = 0; rank < kMembers; ++rank) {
      int status = 0;
      ::waitpid(processes[static_cast<size_t>(rank)], &status, 0);
      const bool as_expected =
          rank == victim ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
      EXPECT_TRUE(as_expected) << "rank " << rank << " ended with " << WEXITSTATUS(status);
    }
    return all;
  }
};

TEST_F(IdleGroups, TakeFewDescriptorsAThreadAndLittleMemoryAndHearOfADeath) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  int hosted = 0;
  for (const Taken& taken : run(beRank, kVictim)) {
    ASSERT_GE(taken.rank, 0) << "a rank did not tell";
    // Ranks host in turn.
    const int threads = kGroups + kGroups / kMembers + 1;
    EXPECT_LE(taken.threads, threads) << "rank " << taken.rank;
    const int hosts = taken.threads - kGroups;
    hosted += hosts;
    EXPECT_LE(taken.descriptors, kGroups * kDescriptorsOfARank + hosts * kDescriptorsOfAHost)
        << "rank " << taken.rank << ", which hosts " << hosts;
    EXPECT_LE(taken.descriptors_of_links, kDescriptorsOfLinks) << "rank " << taken.rank;
    if (!horing::test::kSanitizer) {
      EXPECT_LE(taken.kibibytes, kGroups * kKibibytesOfARank) << "rank " << taken.rank;
    }
    std::printf(
        "rank %d: %d groups take %d descriptors, %d threads, %d KiB; links in %d of them %d descriptors\n",
        taken.rank, kGroups, taken.descriptors, taken.threads, taken.kibibytes, kUsedGroups,
        taken.descriptors_of_links);
  }
  EXPECT_EQ(hosted, kGroups);
}

TEST_F(IdleGroups, AreHundredsUnderTheUsualLimitOfDescriptors) {
  for (const Taken& taken : run(makeManyGroups)) {
    ASSERT_GE(taken.rank, 0) << "a rank did not tell";
    std::printf("rank %d: %d groups and all else take %d descriptors, %d threads\n", taken.rank, kManyGroups,
                taken.descriptors, taken.threads);
  }
}

}  // namespace
