// Settings of one call through NCCL's interface.
#include <chrono>
#include <list>

#include "../sanitizer.h"
#include "clients.h"
#include "horing/horing.h"

namespace {

TEST(NcclCallSettings, AreCheckedBeforeAllElse) {
  struct Case {
    void (*change)(ncclCollConfig_t&);
    ncclResult_t expected;
    const char* named;
  };
  const Case cases[] = {
      {[](ncclCollConfig_t& c) { c.magic = 1; }, ncclInvalidArgument, "magic 0x1"},
      {[](ncclCollConfig_t& c) { c.size = 8; }, ncclInvalidArgument, "size 8"},
      {[](ncclCollConfig_t& c) { c.forceAlgSelection = 2; }, ncclInvalidArgument, "forceAlgSelection is 2"},
      {[](ncclCollConfig_t& c) { c.minCTAs = -5; }, ncclInvalidArgument, "minCTAs is -5"},
      {[](ncclCollConfig_t& c) { c.maxCTAs = 0; }, ncclInvalidArgument, "maxCTAs is 0"},
      {[](ncclCollConfig_t& c) { c.nvlsCTAs = 0; }, ncclInvalidArgument, "nvlsCTAs is 0"},
      {[](ncclCollConfig_t& c) { c.cgaClusterSize = 1000; }, ncclInvalidArgument, "cgaClusterSize is 1000"},
      {[](ncclCollConfig_t& c) { c.minCTAs = 5, c.maxCTAs = 4; }, ncclInvalidArgument, "minCTAs is 5"},
      {[](ncclCollConfig_t& c) { c.CTAPolicy = 9; }, ncclInvalidArgument, "CTAPolicy is 9"},
      {[](ncclCollConfig_t& c) { c.algSelection = "ring,spiral"; }, ncclInvalidArgument,
       "'ring,spiral': horing does not know"},
      {[](ncclCollConfig_t& c) { c.algSelection = "Ring,tree"; }, ncclInvalidArgument, "comm is NULL"},
      {[](ncclCollConfig_t& c) { c.algSelection = ""; }, ncclInvalidArgument, "comm is NULL"},
      {[](ncclCollConfig_t& c) { c.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&c); },
       ncclInvalidUsage, "launchCompletionEvent"},
  };
  float x = 1;
  for (const Case& one : cases) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    one.change(config);
    EXPECT_TRUE(refuses(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, nullptr, nullptr, &config),
                        one.expected, one.named));
  }
  // A caller of 2.31 has no event, and the memory after its struct is its own.
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.size = 64;
  config.version = 23100;
  config.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&config);
  config.algSelection = "unknown";
  config.forceAlgSelection = 0;
  EXPECT_TRUE(refuses(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, nullptr, nullptr, &config),
                      ncclInvalidArgument, "comm is NULL"));
}

// A config with a list of options.
class Options {
 public:
  Options() = default;
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;
  Options& add(int vendor, int id, int value) {
    options_.push_back({config_.ext, {vendor, id}, {}});
    options_.back().val.i = value;
    config_.ext = &options_.back();
    return *this;
  }
  Options& add(int id, int value) { return add(NCCL_VENDOR_HORING, id, value); }
  Options& addText(int id, const char* text) {
    add(id, 0);
    config_.ext->val.s = text;
    return *this;
  }
  // NCCL's own setting.
  Options& select(const char* algorithms) {
    config_.algSelection = algorithms;
    return *this;
  }
  ncclConfigExt_t& first() { return options_.front(); }
  const ncclCollConfig_t* config() const { return &config_; }

 private:
  std::list<ncclConfigExt_t> options_;
  ncclCollConfig_t config_ = NCCL_COLLCONFIG_INITIALIZER;
};

ncclResult_t reduceWith(const Options& options, ncclComm_t comm) {
  float x = 1;
  return ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr, options.config());
}

TEST(NcclCallOptions, AreCheckedBeforeAllElse) {
  Options unknown, twice, negative, two, named, both, circle, endless;
  unknown.add(4, 1);
  twice.add(NCCL_HORING_TIMEOUT_MS, 100).add(7, 7, 7).add(NCCL_HORING_TIMEOUT_MS, 100);
  negative.add(NCCL_HORING_TIMEOUT_MS, -1);
  two.add(NCCL_HORING_REPRODUCIBLE, 2);
  const std::string long_name(64, 'r');
  named.addText(NCCL_HORING_ALGORITHM, long_name.c_str());
  both.addText(NCCL_HORING_ALGORITHM, "ho_ring").select("tree");
  circle.add(7, 1, 1).add(7, 2, 1);
  circle.first().next = &circle.first();
  for (int i = 0; i < 1025; ++i) endless.add(7, i, 1);
  EXPECT_TRUE(refuses(reduceWith(unknown, nullptr), ncclInvalidArgument, "option 4 of vendor 0x686f72"));
  EXPECT_TRUE(refuses(reduceWith(twice, nullptr), ncclInvalidArgument, "option 1 of vendor 0x686f72 twice"));
  EXPECT_TRUE(refuses(reduceWith(negative, nullptr), ncclInvalidArgument, "NCCL_HORING_TIMEOUT_MS is -1"));
  EXPECT_TRUE(refuses(reduceWith(two, nullptr), ncclInvalidArgument, "NCCL_HORING_REPRODUCIBLE is 2"));
  EXPECT_TRUE(refuses(reduceWith(named, nullptr), ncclInvalidArgument, "expected less than 64 characters"));
  EXPECT_TRUE(refuses(reduceWith(both, nullptr), ncclInvalidArgument,
                      "NCCL_HORING_ALGORITHM is 'ho_ring', and config.algSelection is 'tree'"));
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_TRUE(refuses(reduceWith(both, nullptr), ncclInvalidArgument, "config.algSelection is 'tree'"));
  EXPECT_TRUE(refuses(ncclGroupEnd(), ncclInvalidArgument, "config.algSelection is 'tree'"));
  for (const Options* const list : {&circle, &endless})
    EXPECT_TRUE(refuses(reduceWith(*list, nullptr), ncclInvalidArgument, "more than 1024 options"));
}

TEST(NcclCallOptions, OfOtherVendorsAreSkipped) {
  const std::vector<ncclComm_t> comms = meet(2);
  Options options;
  options.add(7, 4, -1).add(-1, NCCL_HORING_TIMEOUT_MS, -1).addText(NCCL_HORING_ALGORITHM, "");
  options.add(NCCL_HORING_REPRODUCIBLE, 0);
  for (int i = 0; i < 1020; ++i) options.add(7, 5, i);
  onEveryRank(2, [&](int rank) { EXPECT_NCCL(reduceWith(options, comms[static_cast<size_t>(rank)])); });
  destroyAll(comms);
}

// A rank that comes after the communicator's deadline, and before its call's; then one that never comes.
TEST(NcclCallOptions, ADeadlineIsThatOfItsCall) {
  const Variable soon("HORING_TIMEOUT_MS", std::to_string(horing::test::kShortDeadlineMs));
  const std::vector<ncclComm_t> comms = meet(2);
  Options later, sooner;
  later.add(NCCL_HORING_TIMEOUT_MS, 60'000);
  sooner.add(NCCL_HORING_TIMEOUT_MS, horing::test::kShortDeadlineMs / 2);
  onEveryRank(2, [&](int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rank * 2 * horing::test::kShortDeadlineMs));
    EXPECT_NCCL(reduceWith(later, comms[static_cast<size_t>(rank)]));
  });
  EXPECT_TRUE(refuses(reduceWith(sooner, comms[0]), ncclRemoteError,
                      "waited for " + std::to_string(horing::test::kShortDeadlineMs / 2) + " ms"));
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommAbort(comm));
}

// Also where it is the communicator's, and the thread's is another.
TEST(NcclCallOptions, TheCommunicatorsDeadlineMayBeAskedFor) {
  const Variable late("HORING_TIMEOUT_MS", "60000");
  const std::vector<ncclComm_t> comms = meet(2);
  Options options;
  options.add(NCCL_HORING_TIMEOUT_MS, 60'000);
  onEveryRank(2, [&](int rank) {
    horingCallOptions_t own = HORING_CALL_OPTIONS_INITIALIZER;
    own.timeoutMs = horing::test::kShortDeadlineMs;
    ASSERT_EQ(horingSetCallOptions(&own, nullptr), horingSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(rank * 2 * horing::test::kShortDeadlineMs));
    EXPECT_NCCL(reduceWith(options, comms[static_cast<size_t>(rank)]));
    EXPECT_EQ(horingSetCallOptions(nullptr, nullptr), horingSuccess);
  });
  destroyAll(comms);
}

// The library's own options, which a program may use too, are as before.
TEST(NcclCallOptions, HoldForTheirCallOnly) {
  const std::vector<ncclComm_t> comms = meet(2);
  horingCallOptions_t own = HORING_CALL_OPTIONS_INITIALIZER, found = HORING_CALL_OPTIONS_INITIALIZER;
  own.timeoutMs = 20'000;
  ASSERT_EQ(horingSetCallOptions(&own, nullptr), horingSuccess);
  Options options;
  options.add(NCCL_HORING_TIMEOUT_MS, 15'000);
  onEveryRank(2, [&](int rank) { EXPECT_NCCL(reduceWith(options, comms[static_cast<size_t>(rank)])); });
  EXPECT_TRUE(refuses(reduceWith(options, nullptr), ncclInvalidArgument, "comm is NULL"));
  EXPECT_EQ(horingSetCallOptions(nullptr, &found), horingSuccess);
  EXPECT_EQ(found.timeoutMs, 20'000);
  destroyAll(comms);
}

// By both settings; a rank that sets neither is named.
TEST(NcclCallOptions, AnAlgorithmIsThatOfItsCall) {
  std::vector<ncclComm_t> comms = meet(2);
  Options own, of_nccl, nvls, none;
  own.addText(NCCL_HORING_ALGORITHM, "ho_ring");
  of_nccl.select("NVLS,Tree");
  nvls.select("NVLS");
  const auto on_both = [&](const Options& of_0, const Options& of_1, ncclResult_t expected,
                           const char* named) {
    onEveryRank(2, [&](int rank) {
      const ncclResult_t result = reduceWith(rank == 0 ? of_0 : of_1, comms[static_cast<size_t>(rank)]);
      EXPECT_TRUE(expected == ncclSuccess ? testing::AssertionResult(result == ncclSuccess)
                                          : refuses(result, expected, named));
    });
  };
  on_both(own, own, ncclSuccess, "");
  on_both(of_nccl, of_nccl, ncclSuccess, "");
  on_both(nvls, nvls, ncclInvalidUsage, "algorithm is 'NVLS'");
  on_both(of_nccl, none, ncclInvalidUsage,
          "rank 0 called all_reduce (1 x float32, sum, algorithm halving_doubling)");
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommAbort(comm));
}

TEST(NcclCallOptions, OfReductionsWantAReproducibleCommunicator) {
  Options reproducible;
  reproducible.add(NCCL_HORING_REPRODUCIBLE, 1);
  const std::vector<ncclComm_t> plain = meet(1);
  EXPECT_TRUE(refuses(reduceWith(reproducible, plain[0]), ncclInvalidUsage, "HORING_REPRODUCIBLE=1"));
  float x = 1;
  const ncclCollConfig_t* const config = reproducible.config();
  EXPECT_TRUE(refuses(ncclReduceConfig(&x, &x, 1, ncclFloat, ncclSum, 0, plain[0], nullptr, config),
                      ncclInvalidUsage, "HORING_REPRODUCIBLE=1"));
  EXPECT_TRUE(refuses(ncclReduceScatterConfig(&x, &x, 1, ncclFloat, ncclSum, plain[0], nullptr, config),
                      ncclInvalidUsage, "HORING_REPRODUCIBLE=1"));
  // What only moves data is so in any case.
  EXPECT_NCCL(ncclBroadcastConfig(&x, &x, 1, ncclFloat, 0, plain[0], nullptr, config));
  EXPECT_NCCL(ncclAllGatherConfig(&x, &x, 1, ncclFloat, plain[0], nullptr, config));
  destroyAll(plain);
  const Variable set("HORING_REPRODUCIBLE", "1");
  const std::vector<ncclComm_t> comms = meet(1);
  EXPECT_NCCL(reduceWith(reproducible, comms[0]));
  destroyAll(comms);
}

}  // namespace
