// idle_wait_bench: what a rank costs that waits for a late one. Run it under horing-run:
//
//   horing-run -n 16 -- idle_wait_bench [SECONDS]      default 3
//
// Rank 0 comes SECONDS late to an all-reduce of 8 bytes. Every other rank compares the CPU time of its process with the duration of the
// all-reduce, which is mostly waiting. Rank 0 prints a line of JSON. Exit code 0 when measured.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "horing/horing.h"

namespace {

constexpr const char* kUsage =
    R"(Usage: horing-run -n RANKS -- idle_wait_bench [SECONDS]

What a rank costs that waits for a late one: rank 0 comes SECONDS (default 3) late to an all-reduce of 8 bytes, and rank 0
prints, as JSON, the share of a core that the others used meanwhile. Two ranks or more.
)";

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void expect(horingResult_t result) {
  if (result == horingSuccess) return;
  std::fprintf(stderr, "idle_wait_bench: %s\n", horingGetLastError(nullptr));
  std::exit(1);
}

void sleepFor(double duration_s) {
  timespec left{};
  left.tv_sec = static_cast<time_t>(duration_s);
  left.tv_nsec = static_cast<long>((duration_s - static_cast<double>(left.tv_sec)) * 1e9);
  while (::nanosleep(&left, &left) != 0) {
  }
}

// The share of a core that this rank used while it waited for rank 0.
double waitForTheLateOne(horingComm_t comm, int rank, double late_s) {
  float in[2] = {1, 1};
  float out[2] = {};
  // Connected, and all here.
  expect(horingAllReduce(in, out, 2, horingFloat, horingSum, comm, nullptr));
  if (rank == 0) sleepFor(late_s);
  const double begun_s = seconds(CLOCK_MONOTONIC), begun_cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
  expect(horingAllReduce(in, out, 2, horingFloat, horingSum, comm, nullptr));
  return (seconds(CLOCK_PROCESS_CPUTIME_ID) - begun_cpu_s) / (seconds(CLOCK_MONOTONIC) - begun_s);
}

void print(std::vector<double> shares, double late_s) {
  shares.erase(shares.begin());  // rank 0 did not wait
  std::sort(shares.begin(), shares.end());
  std::printf("{\"ranks\": %zu, \"waited_s\": %g, \"share_of_a_core\": {\"median\": %.6f, \"most\": %.6f}}\n",
              shares.size() + 1, late_s, shares[shares.size() / 2], shares.back());
}

}  // namespace

int main(int argc, char** argv) {
  const double late_s = argc > 1 ? std::atof(argv[1]) : 3;
  if (argc > 2 || !(late_s > 0)) {
    const bool asked = argc == 2 && std::strcmp(argv[1], "--help") == 0;
    std::fprintf(asked ? stdout : stderr, "%s", kUsage);
    return asked ? 0 : 2;
  }
  horingComm_t comm = nullptr;
  int rank = 0, ranks = 0;
  expect(horingCommInitFromEnv(&comm));
  expect(horingCommUserRank(comm, &rank));
  expect(horingCommCount(comm, &ranks));
  if (ranks < 2) {
    std::fprintf(stderr, "idle_wait_bench: one rank has no peer to wait for: start two or more\n");
    return 2;
  }
  const double share = waitForTheLateOne(comm, rank, late_s);
  std::vector<double> shares(static_cast<size_t>(ranks));
  expect(horingAllGather(&share, shares.data(), 1, horingDouble, comm, nullptr));
  if (rank == 0) print(std::move(shares), late_s);
  expect(horingCommDestroy(comm));
  return 0;
}
