#pragma once
// A job of ranks for each way of making communicators.
#include <numeric>
#include <ostream>
#include <vector>

#include "../rdma_machine.h"
#include "ranks.h"

struct Way {
  const char* name;
  Meeting meeting;
  const char* transports;
  const char* algorithm;
  int ranks;
  bool has_kernels = false;  // the kernels of tests/engine/cuda
};

inline void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name << ' ' << way.algorithm << ' ' << way.ranks << " ranks"
       << (way.has_kernels ? " with kernels" : "");
}

class Collectives : public testing::TestWithParam<Way> {
 protected:
  Collectives()
      : transports_("HORING_TRANSPORTS", GetParam().transports),
        algorithm_("HORING_ALGO", GetParam().algorithm) {}
  void SetUp() override {
    const bool over_rdma = GetParam().name == std::string("verbs");
    if (over_rdma) HORING_NEEDS_RDMA_MACHINE();
    comms_ =
        over_rdma ? makeOnWires(GetParam().ranks) : makeCommunicators(GetParam().ranks, GetParam().meeting);
    ASSERT_FALSE(HasFailure());
  }
  void TearDown() override {
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  }
  int ranks() const { return GetParam().ranks; }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }

 private:
  Setting transports_, algorithm_;
  std::vector<horingComm_t> comms_;
};

// Those behind the sixth have no transport and no way of meeting of their own, only schedules and numbers of ranks.
inline constexpr Way kWays[] = {{"loopback", Meeting::kInitAll, "shm,socket", "auto", 1},
                                {"loopback", Meeting::kInitAll, "shm,socket", "auto", 4},
                                {"loopback", Meeting::kInitAll, "shm,socket", "peer_read", 3},
                                {"shm", Meeting::kInitRank, "shm", "auto", 2},
                                {"socket", Meeting::kInitRank, "socket", "ring", 3},
                                {"both", Meeting::kInitRank, "shm,socket", "auto", 4},
                                {"loopback", Meeting::kInitAll, "shm,socket", "ring", 3},
                                {"shm", Meeting::kInitRank, "shm", "ring", 5},
                                {"shm", Meeting::kInitRank, "shm", "direct", 4},
                                {"socket", Meeting::kInitRank, "socket", "one_shot", 3}};
inline auto everyWay() {
  return testing::ValuesIn(horing::test::firstUnderSanitizer(6, kWays));
}

// first, first + 1, ...: what a message of a test holds.
inline std::vector<int32_t> numbers(size_t count, int32_t first) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// In the virtual machine of tools/rdma_vm.
inline constexpr Way kVerbsWay = {"verbs", Meeting::kInitRank, "verbs", "auto", 4};
