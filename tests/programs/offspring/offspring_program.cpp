// Ranks that split their communicator by node and across nodes, and use all three in turns. Exits with 0 if every
// result is right.
#include <horing/horing.h>

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

}  // namespace

int main() {
  const int node = number("HORING_RUN_NODE"), nodes = number("HORING_RUN_NODES");
  const int local = number("LOCAL_RANK"), locals = number("LOCAL_WORLD_SIZE");
  rank_here = number("RANK");
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
  return 0;
}
