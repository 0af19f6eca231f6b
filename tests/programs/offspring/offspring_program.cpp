// Ranks that split their communicator by node and across nodes, and use all three in turns; or lose one rank, and continue without
// it. Exits with 0 if every result is right.
#include <horing/horing.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

int rank_here = -1;

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "rank %d: %s: %s\n", rank_here, what, horingGetLastError(nullptr));
  std::_Exit(1);
}

int number(const char* name) {
  const char* value = std::getenv(name);
  check(value != nullptr, name);
  return std::atoi(value);
}

struct Family {
  horingComm_t comm = nullptr;
  int ranks = 0;
  int sum = 0;  // of the ranks' numbers in the whole job
};

Family describe(horingComm_t comm, int expected_ranks) {
  Family family{comm, 0, 0};
  check(horingCommCount(comm, &family.ranks) == horingSuccess, "count");
  check(family.ranks == expected_ranks, "number of ranks");
  std::vector<int> members(static_cast<size_t>(family.ranks));
  check(horingAllGather(&rank_here, members.data(), 1, horingInt, comm, nullptr) == horingSuccess, "gather");
  for (const int member : members) family.sum += member;
  return family;
}

void reduce(const Family& family, size_t count) {
  std::vector<int> data(count, rank_here);
  check(horingAllReduce(data.data(), data.data(), count, horingInt, horingSum, family.comm, nullptr) ==
            horingSuccess,
        "all-reduce");
  for (const int value : data) check(value == family.sum, "result");
}

void splitAndReduce() {
  const int node = number("HORING_RUN_NODE"), nodes = number("HORING_RUN_NODES");
  const int local = number("LOCAL_RANK"), locals = number("LOCAL_WORLD_SIZE");
  horingComm_t comms[3] = {};
  check(horingCommInitFromEnv(&comms[0]) == horingSuccess, "init");
  check(horingCommSplit(comms[0], node, local, &comms[1], nullptr) == horingSuccess, "split by node");
  check(horingCommSplit(comms[0], local, node, &comms[2], nullptr) == horingSuccess, "split across nodes");
  const Family families[] = {describe(comms[0], nodes * locals), describe(comms[1], locals),
                             describe(comms[2], nodes)};
  char text[4096];
  check(horingCommDescribe(comms[1], text, sizeof text) == horingSuccess, "describe");
  check(std::strstr(text, "by socket") == nullptr, "a node's ranks share memory");
  check(horingCommDescribe(comms[2], text, sizeof text) == horingSuccess, "describe");
  check(std::strstr(text, "by shm") == nullptr, "ranks of different nodes do not");
  for (int round = 0; round < 5; ++round)
    for (const Family& family : families)
      for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'000}}) reduce(family, count);
  for (const Family& family : families) check(horingCommDestroy(family.comm) == horingSuccess, "destroy");
}

// The victim kills itself, the others continue without it.
void loseAndShrink(int victim) {
  horingComm_t comm = nullptr, rest = nullptr;
  check(horingCommInitFromEnv(&comm) == horingSuccess, "init");
  const int ranks = number("WORLD_SIZE");
  // A call that the victim has completed just before its death may succeed or fail on the other ranks.
  horingResult_t reduced = horingSuccess;
  for (int round = 0; reduced == horingSuccess; ++round) {
    if (round == 3 && rank_here == victim) kill(getpid(), SIGKILL);
    int x = 1;
    reduced = horingAllReduce(&x, &x, 1, horingInt, horingSum, comm, nullptr);
    check(reduced != horingSuccess || x == ranks, "result");
  }
  check(reduced == horingRemoteError, "a rank is lost");
  check(horingCommShrink(comm, &victim, 1, &rest, nullptr, HORING_SHRINK_ABORT) == horingSuccess, "shrink");
  const Family family = describe(rest, ranks - 1);
  check(family.sum == ranks * (ranks - 1) / 2 - victim, "who is left");
  for (const size_t count : {size_t{1}, size_t{300'000}}) reduce(family, count);
  check(horingCommAbort(comm) == horingSuccess, "abort");
  reduce(family, 1000);
  check(horingCommDestroy(rest) == horingSuccess, "destroy");
  std::printf("rank %d went on\n", rank_here);
}

}  // namespace

// Without arguments it splits; with one, it loses that rank.
int main(int argc, char** argv) {
  rank_here = number("RANK");
  if (argc > 1) {
    loseAndShrink(std::atoi(argv[1]));
  } else {
    splitAndReduce();
  }
  return 0;
}
