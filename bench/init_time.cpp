// init_bench: how long it takes to make a communicator. Run it under horing-run:
//
//   horing-run -n 64 -- init_bench [REPETITIONS]      default 5
//
// The processes run already and have made one communicator. Each repetition begins with a barrier; its time is from the first rank's call
// of horingCommInitRank to the last rank's return. All ranks are on one machine, whose clock they share. Rank 0 prints a line of JSON. Exit
// code 0 when measured.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "horing/horing.h"

namespace {

double nowSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void expect(horingResult_t result) {
  if (result == horingSuccess) return;
  std::fprintf(stderr, "init_bench: %s\n", horingGetLastError(nullptr));
  std::exit(1);
}

double most(horingComm_t comm, double value) {
  expect(horingAllReduce(&value, &value, 1, horingDouble, horingMax, comm, nullptr));
  return value;
}

// Makes one communicator more, and ends it.
double makeOne(horingComm_t meeting, int rank, int ranks) {
  horingUniqueId id;
  if (rank == 0) expect(horingGetUniqueId(&id));
  expect(horingBroadcast(&id, &id, sizeof id, horingUint8, 0, meeting, nullptr));
  static_cast<void>(most(meeting, 0));  // a barrier
  horingComm_t comm = nullptr;
  const double begun_s = nowSeconds();
  expect(horingCommInitRank(&comm, ranks, id, rank));
  const double ended_s = nowSeconds();
  const double took_s = most(meeting, ended_s) + most(meeting, -begun_s);
  expect(horingCommDestroy(comm));
  return took_s;
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 5;
  if (repetitions < 1) {
    std::fprintf(stderr, "usage: horing-run -n RANKS -- init_bench [REPETITIONS]\n");
    return 2;
  }
  horingComm_t meeting = nullptr;
  int rank = 0, ranks = 0;
  expect(horingCommInitFromEnv(&meeting));
  expect(horingCommUserRank(meeting, &rank));
  expect(horingCommCount(meeting, &ranks));
  std::vector<double> times_s;
  for (int i = 0; i < repetitions; ++i) times_s.push_back(makeOne(meeting, rank, ranks));
  std::sort(times_s.begin(), times_s.end());
  if (rank == 0)
    std::printf("{\"ranks\": %d, \"init_s\": {\"least\": %.4f, \"median\": %.4f, \"most\": %.4f}}\n", ranks,
                times_s.front(), times_s[times_s.size() / 2], times_s.back());
  expect(horingCommDestroy(meeting));
  return 0;
}
