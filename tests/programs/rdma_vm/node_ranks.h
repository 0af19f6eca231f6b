#pragma once
// Ranks as processes of the two nodes A and B of the virtual machine (tools/rdma_vm), which a test forks: starting programs takes
// long in there.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "horing/horing.h"

#define ASSERT_HORING(call) ASSERT_EQ(call, horingSuccess) << horingGetLastError(nullptr)
#define EXPECT_HORING(call) EXPECT_EQ(call, horingSuccess) << horingGetLastError(nullptr)

namespace horing::testing {

using Clock = std::chrono::steady_clock;
inline constexpr auto kWaitDeadline = std::chrono::seconds(30);

// What all ranks and their parent see: numbers that only grow, and IDs of communicators.
struct Board {
  static constexpr int kMaxIds = 64;
  std::atomic<int> ids{0};
  std::atomic<int> arrived{0};  // ranks that came to a point that the test names, over all rounds
  std::atomic<int> ended{0};    // ... that left it
  std::atomic<int> round{0};    // of the parent
  std::atomic<int64_t> took_us{0};
  horingUniqueId id[kMaxIds];
};

class SharedBoard {
 public:
  SharedBoard()
      : memory_(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        board_(memory_ == MAP_FAILED ? nullptr : new (memory_) Board) {}
  ~SharedBoard() {
    if (board_) ::munmap(memory_, sizeof(Board));
  }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board* get() const { return board_; }

 private:
  void* memory_;
  Board* board_;
};

// Whether `number` reached `goal` in time.
inline bool waitFor(const std::atomic<int>& number, int goal) {
  const auto deadline = Clock::now() + kWaitDeadline;
  while (number.load() < goal) {
    if (Clock::now() > deadline) return false;
    ::usleep(1000);
  }
  return true;
}

// The `which`th communicator of all ranks, counted from 0; nullptr after a failure, which it reports.
inline horingComm_t meet(Board* board, int which, int ranks, int rank) {
  if (rank == 0) {
    EXPECT_HORING(horingGetUniqueId(&board->id[which]));
    board->ids.store(which + 1);
  }
  horingComm_t comm = nullptr;
  EXPECT_TRUE(waitFor(board->ids, which + 1));
  EXPECT_HORING(horingCommInitRank(&comm, ranks, board->id[which], rank));
  return comm;
}

struct Nodes {
  int ranks = 2;  // the first half on node A, the rest on node B
  std::string transports = "shm,verbs";
  std::string devices_a = "rxe0,rxe2";
  std::string devices_b = "rxe1,rxe3";
  int rank_without = -1;               // has no RDMA device
  std::chrono::seconds deadline{100};  // for all that the ranks do
};

// Runs body(rank) in a process for each rank, and `parent` here meanwhile. Expectations hold in all of them.
inline void onNodes(const Nodes& nodes, const std::function<void(int)>& body,
                    const std::function<void()>& parent = {}) {
  std::vector<pid_t> processes;
  std::fflush(nullptr);
  for (int rank = 0; rank < nodes.ranks; ++rank) {
    const pid_t process = ::fork();
    ASSERT_GE(process, 0);
    if (process != 0) {
      processes.push_back(process);
      continue;
    }
    const bool a = rank < nodes.ranks / 2;
    ::setenv("HORING_HOSTID", a ? "A" : "B", 1);
    ::mkdir(a ? "/dev/shm/A" : "/dev/shm/B", 0700);  // the nodes share no memory
    ::setenv("HORING_SHM_DIR", a ? "/dev/shm/A" : "/dev/shm/B", 1);
    const std::string& devices = a ? nodes.devices_a : nodes.devices_b;
    ::setenv("HORING_IB_HCA", rank == nodes.rank_without ? "nosuch" : devices.c_str(), 1);
    ::setenv("HORING_TRANSPORTS", nodes.transports.c_str(), 1);
    ::setenv("HORING_SOCKET_IFNAME", "=lo", 1);  // a separate network, as clusters have for control
    ::setenv("HORING_TIMEOUT_MS", "20000", 1);
    body(rank);
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  if (parent) parent();
  const auto deadline = Clock::now() + nodes.deadline;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(processes[rank], &status, WNOHANG)) == 0 && Clock::now() < deadline)
      ::usleep(2000);
    if (ended == 0) {
      ::kill(processes[rank], SIGKILL);
      ::waitpid(processes[rank], &status, 0);
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << rank << (ended == 0 ? " did not end" : " failed, see above") << ", status " << status;
  }
}

}  // namespace horing::testing
