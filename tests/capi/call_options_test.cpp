// Options of one call of a collective: its deadline, its algorithm.
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "ranks.h"

namespace {

using horing::test::kShortDeadlineMs;

// Sets the options of this thread's calls while the object exists.
class CallOptions {
 public:
  explicit CallOptions(int timeout_ms, const std::string& algorithm = "") {
    options_.timeoutMs = timeout_ms;
    algorithm.copy(options_.algorithm, sizeof options_.algorithm - 1);
    EXPECT_HORING(horingSetCallOptions(&options_, nullptr));
  }
  explicit CallOptions(const std::string& algorithm) : CallOptions(HORING_CONFIG_UNDEF_INT, algorithm) {}
  ~CallOptions() { EXPECT_HORING(horingSetCallOptions(nullptr, nullptr)); }
  CallOptions(const CallOptions&) = delete;
  CallOptions& operator=(const CallOptions&) = delete;

 private:
  horingCallOptions_t options_ = HORING_CALL_OPTIONS_INITIALIZER;
};

horingResult_t addOne(horingComm_t comm, float& x, horingStream_t stream = nullptr) {
  return horingAllReduce(&x, &x, 1, horingFloat, horingSum, comm, stream);
}

void comeLate() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5 * kShortDeadlineMs / 4));
}

TEST(CallOptions, AreCheckedAndKeptForTheThread) {
  horingCallOptions_t options = HORING_CALL_OPTIONS_INITIALIZER, former;
  options.timeoutMs = -1;
  EXPECT_TRUE(
      refuses(horingSetCallOptions(&options, nullptr), horingInvalidArgument, "options.timeoutMs is -1"));
  options.timeoutMs = 500;
  options.magic = 7;
  EXPECT_TRUE(refuses(horingSetCallOptions(&options, nullptr), horingInvalidArgument, "magic 0x7"));
  options.magic = HORING_API_MAGIC;
  std::memset(options.algorithm, 'x', sizeof options.algorithm);
  EXPECT_TRUE(refuses(horingSetCallOptions(&options, nullptr), horingInvalidArgument, "no closing 0"));
  std::strcpy(options.algorithm, "ring");
  ASSERT_HORING(horingSetCallOptions(&options, &former));
  EXPECT_EQ(former.timeoutMs, HORING_CONFIG_UNDEF_INT) << "what was refused has changed nothing";
  std::thread([] {
    horingCallOptions_t of_another;
    ASSERT_HORING(horingSetCallOptions(nullptr, &of_another));
    EXPECT_EQ(of_another.timeoutMs, HORING_CONFIG_UNDEF_INT);
  }).join();
  ASSERT_HORING(horingSetCallOptions(nullptr, &former));
  EXPECT_EQ(former.timeoutMs, 500);
  EXPECT_STREQ(former.algorithm, "ring");
}

TEST(CallOptions, ADeadlineEndsItsCall) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  onEveryRank(2, [&](int rank) {
    float x = 1;
    EXPECT_HORING(addOne(comms[static_cast<size_t>(rank)], x));
  });
  float x = 1;
  const CallOptions soon(kShortDeadlineMs);
  EXPECT_TRUE(refuses(addOne(comms[0], x), horingTimeout, "rank 1 never called all_reduce #1"));
  EXPECT_TRUE(refuses(addOne(comms[0], x), horingTimeout,
                      ("waited for " + std::to_string(kShortDeadlineMs) + " ms").c_str()));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

// Of all kinds of calls: complete on return, on a stream, in a group, of a list. Each keeps the deadline that it was made with.
TEST(CallOptions, ADeadlineMayBeLaterThanTheCommunicators) {
  const Setting soon("HORING_TIMEOUT_MS", kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    float x = 1, y = 1, z = 1, list[2] = {1, 1};
    if (rank == 1) comeLate();
    {
      const CallOptions later(60'000);
      EXPECT_HORING(addOne(comm, x));
    }
    if (rank == 1) comeLate();
    {
      const CallOptions none(0, "ring");
      EXPECT_HORING(addOne(comm, y, stream));
    }
    EXPECT_HORING(horingStreamSynchronize(stream));
    if (rank == 1) comeLate();
    EXPECT_HORING(horingGroupStart());
    {
      const CallOptions later(60'000);
      EXPECT_HORING(addOne(comm, z));
    }
    EXPECT_HORING(horingGroupEnd());
    if (rank == 1) comeLate();
    {
      const CallOptions later(60'000);
      void* const entries[] = {&list[0], &list[1]};
      const size_t counts[] = {1, 1};
      EXPECT_HORING(horingAllReduceList(entries, entries, counts, 2, horingFloat, horingSum, comm, nullptr));
    }
    for (const float sum : {x, y, z, list[0], list[1]}) EXPECT_EQ(sum, 2);
    EXPECT_HORING(horingStreamDestroy(stream));
  });
  // And later ones have the communicator's again.
  float x = 1;
  EXPECT_TRUE(refuses(addOne(comms[0], x), horingTimeout, "rank 1 never called"));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

// Sums whose order shows in their bits, of groups {0, 2} and {1, 3}.
TEST(CallOptions, AnAlgorithmRuns) {
  constexpr size_t kCount = 40'007;
  std::mt19937 random(7);
  std::vector<std::vector<float>> in(4, std::vector<float>(kCount));
  for (std::vector<float>& input : in)
    for (float& x : input)
      x = std::ldexp(static_cast<float>(random() % 65'536) - 32'768.0f, static_cast<int>(random() % 24));
  const std::vector<horingComm_t> comms = makeGroups({"a", "b", "a", "b"});
  const auto in_order = [&](size_t i) { return (in[0][i] + in[2][i]) + (in[1][i] + in[3][i]); };
  onEveryRank(4, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    std::vector<float> out(kCount);
    const auto reduce = [&] {
      ASSERT_HORING(
          horingAllReduce(in[at].data(), out.data(), kCount, horingFloat, horingSum, comms[at], nullptr));
    };
    for (int round = 0; round < 2; ++round)
      for (const bool is_ordered : {false, true}) {
        const CallOptions asked(is_ordered ? "ho_ordered" : "ring");
        reduce();
        EXPECT_EQ(static_cast<bool>(holds(out.data(), kCount, in_order)), is_ordered);
      }
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(CallOptions, EveryAlgorithmGivesTheResult) {
  const std::vector<horingComm_t> comms = makeGroups({"a", "b", "a", "b"});
  onEveryRank(4, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    constexpr size_t kCount = 1000;
    const std::vector<float> in = filled(rank, kCount);
    const auto sum = [](size_t i) { return element(0, i) + element(1, i) + element(2, i) + element(3, i); };
    for (const char* algorithm : {"ring", "serial_ring", "direct", "halving_doubling", "doubling", "one_shot",
                                  "ho_ring", "ho_direct", "ho_leaders", "star", "Ring,Tree", "NVLS,tree"}) {
      SCOPED_TRACE(algorithm);
      const CallOptions asked(algorithm);
      std::vector<float> out(kCount);
      EXPECT_HORING(horingAllReduce(in.data(), out.data(), kCount, horingFloat, horingSum, comm, nullptr));
      EXPECT_TRUE(holds(out.data(), kCount, sum));
    }
    for (const char* algorithm : {"binomial", "chain", "ho_chain", "ring"}) {
      SCOPED_TRACE(algorithm);
      const CallOptions asked(algorithm);
      for (int root = 0; root < 4; ++root) {
        std::vector<float> out = in;
        EXPECT_HORING(horingBcast(out.data(), kCount, horingFloat, root, comm, nullptr));
        EXPECT_TRUE(holds(out.data(), kCount, [&](size_t i) { return element(root, i); }));
      }
    }
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// All ranks learn which rank differs, at once: of a communicator whose deadline is late.
void expectDisagreement(const char* of_rank_1, const char* of_others, const std::string& text) {
  const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitRank);
  const auto begin = std::chrono::steady_clock::now();
  onEveryRank(3, [&](int rank) {
    const CallOptions asked(rank == 1 ? of_rank_1 : of_others);
    std::vector<float> data(1000);
    EXPECT_TRUE(refuses(horingAllReduce(data.data(), data.data(), data.size(), horingFloat, horingSum,
                                        comms[static_cast<size_t>(rank)], nullptr),
                        horingInvalidUsage, text.c_str()));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

TEST(CallOptions, RanksThatDifferInTheAlgorithmAreNamed) {
  expectDisagreement("ring", "direct",
                     "rank 1 called all_reduce (1000 x float32, sum, algorithm ring), ranks 0, 2 called "
                     "all_reduce (1000 x float32, sum, algorithm direct)");
  expectDisagreement("ring", "",
                     "rank 1 called all_reduce (1000 x float32, sum, algorithm ring), ranks 0, 2 called "
                     "all_reduce (1000 x float32, sum)");
}

// Also where they would run the same one.
TEST(CallOptions, RanksThatDoNotAllAskAreNamed) {
  const Setting forced("HORING_ALGO", "ring");
  expectDisagreement("ring", "", "rank 1 called all_reduce (1000 x float32, sum, algorithm ring)");
}

TEST(CallOptions, AlgorithmsThatACallCannotHaveAreRefused) {
  const std::vector<horingComm_t> comms = makeGroups({"a", "b", "a"});
  onEveryRank(3, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    float x = 1;
    const auto refuses_it = [&](const char* algorithm, horingResult_t code, const char* named) {
      const CallOptions asked(algorithm);
      return refuses(addOne(comm, x), code, named);
    };
    EXPECT_TRUE(refuses_it("spiral", horingInvalidArgument, "algorithm is 'spiral'"));
    EXPECT_TRUE(refuses_it("all_reduce=ring", horingInvalidArgument, "algorithm is 'all_reduce=ring'"));
    EXPECT_TRUE(refuses_it("pairwise", horingInvalidUsage, "none of that name has all_reduce"));
    EXPECT_TRUE(refuses_it("nvls", horingInvalidUsage, "none of that name has all_reduce"));
    EXPECT_TRUE(refuses_it("^nvls", horingInvalidUsage, "one call cannot exclude algorithms"));
    EXPECT_TRUE(refuses_it("peer_write", horingInvalidUsage, "each other's buffers"));
    EXPECT_TRUE(refuses_it("ho_leaders", horingInvalidUsage, "groups of one size"));
    // Nothing of a group that has one is launched.
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(addOne(comm, x));
    EXPECT_TRUE(refuses_it("spiral", horingInvalidArgument, "algorithm is 'spiral'"));
    EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidArgument, "nothing of the group was launched"));
    EXPECT_EQ(x, 1);
    EXPECT_HORING(addOne(comm, x));
    EXPECT_EQ(x, 3);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(CallOptions, AReproducibleCommunicatorStaysSo) {
  const Setting reproducible("HORING_REPRODUCIBLE", "1");
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    float x = 1, both[2] = {};
    {
      const CallOptions ring("ring");
      EXPECT_TRUE(refuses(addOne(comm, x), horingInvalidUsage, "the communicator is reproducible"));
      EXPECT_HORING(horingAllGather(&x, both, 1, horingFloat, comm, nullptr));
    }
    const CallOptions ordered("ho_ordered");
    EXPECT_HORING(addOne(comm, x));
    EXPECT_EQ(x, 2);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// It has no groups of one size, and runs that algorithm itself.
TEST(CallOptions, AReproducibleCommunicatorOfUnequalGroupsHasItsAlgorithm) {
  const Setting reproducible("HORING_REPRODUCIBLE", "1");
  const std::vector<horingComm_t> comms = makeGroups({"a", "b", "a"});
  onEveryRank(3, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    const std::vector<float> in = filled(rank, 1000);
    std::vector<float> chosen(1000), asked(1000);
    EXPECT_HORING(horingAllReduce(in.data(), chosen.data(), 1000, horingFloat, horingSum, comm, nullptr));
    const CallOptions ordered("ho_ordered");
    EXPECT_HORING(horingAllReduce(in.data(), asked.data(), 1000, horingFloat, horingSum, comm, nullptr));
    EXPECT_EQ(asked, chosen);
    EXPECT_TRUE(
        holds(asked.data(), 1000, [](size_t i) { return element(0, i) + element(1, i) + element(2, i); }));
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
