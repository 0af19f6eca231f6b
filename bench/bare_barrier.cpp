// bare_barrier_bench: the time of a barrier of RANKS processes that do nothing else.
//
//   bare_barrier_bench RANKS [BARRIERS]      default 3000
//
// Each process increments a counter in shared memory and yields (sched_yield) until all have arrived. An all-reduce of a few bytes takes
// at least as long as such a barrier, so this is its floor where ranks outnumber cores. Forks the processes itself and prints microseconds
// per barrier. Exit code 0 when measured.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

constexpr int kMostRanks = 1024;

struct Meeting {
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<int> round{0};
  alignas(64) double microseconds = 0;  // written by rank 0
};

void meet(Meeting& meeting, int ranks) {
  const int round = meeting.round.load();
  if (meeting.arrived.fetch_add(1) == ranks - 1) {
    meeting.arrived.store(0);
    meeting.round.store(round + 1);
    return;
  }
  while (meeting.round.load() == round) ::sched_yield();
}

double nowUs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

[[noreturn]] void beRank(Meeting& meeting, int rank, int ranks, int barriers) {
  for (int i = 0; i < 100; ++i) meet(meeting, ranks);
  const double start_us = nowUs();
  for (int i = 0; i < barriers; ++i) meet(meeting, ranks);
  if (rank == 0) meeting.microseconds = (nowUs() - start_us) / barriers;
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0, barriers = argc > 2 ? std::atoi(argv[2]) : 3000;
  if (ranks < 1 || ranks > kMostRanks || barriers < 1) {
    std::fprintf(stderr, "usage: bare_barrier_bench RANKS [BARRIERS], 1 to %d ranks\n", kMostRanks);
    return 2;
  }
  void* const memory =
      ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Meeting& meeting = *new (memory) Meeting;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) {
      std::perror("bare_barrier_bench: fork");
      for (const pid_t other : children) ::kill(other, SIGKILL);  // they would wait for ever
      return 1;
    }
    if (child == 0) beRank(meeting, rank, ranks, barriers);
    children.push_back(child);
  }
  while (::wait(nullptr) > 0) {
  }
  std::printf("%.2f\n", meeting.microseconds);
  return 0;
}
