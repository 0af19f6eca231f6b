// Settings of one call through NCCL's interface.
#include <list>

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
      {[](ncclCollConfig_t& c) { c.algSelection = "Ring,tree"; }, ncclInvalidUsage,
       "algSelection is 'Ring,tree'"},
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
  Options unknown, twice, negative, two, named, circle, endless;
  unknown.add(4, 1);
  twice.add(NCCL_HORING_TIMEOUT_MS, 100).add(7, 7, 7).add(NCCL_HORING_TIMEOUT_MS, 100);
  negative.add(NCCL_HORING_TIMEOUT_MS, -1);
  two.add(NCCL_HORING_REPRODUCIBLE, 2);
  named.addText(NCCL_HORING_ALGORITHM, "ho_ring");
  circle.add(7, 1, 1).add(7, 2, 1);
  circle.first().next = &circle.first();
  for (int i = 0; i < 1025; ++i) endless.add(7, i, 1);
  EXPECT_TRUE(refuses(reduceWith(unknown, nullptr), ncclInvalidArgument, "option 4 of vendor 0x686f72"));
  EXPECT_TRUE(refuses(reduceWith(twice, nullptr), ncclInvalidArgument, "option 1 of vendor 0x686f72 twice"));
  EXPECT_TRUE(refuses(reduceWith(negative, nullptr), ncclInvalidArgument, "NCCL_HORING_TIMEOUT_MS is -1"));
  EXPECT_TRUE(refuses(reduceWith(two, nullptr), ncclInvalidArgument, "NCCL_HORING_REPRODUCIBLE is 2"));
  EXPECT_TRUE(refuses(reduceWith(named, nullptr), ncclInvalidUsage, "NCCL_HORING_ALGORITHM is 'ho_ring'"));
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

TEST(NcclCallOptions, ADeadlineIsThatOfTheCommunicator) {
  const Variable late("HORING_TIMEOUT_MS", "20000");
  const std::vector<ncclComm_t> comms = meet(1);
  const auto comm = reinterpret_cast<horingComm_t>(comms[0]);
  Options other, same;
  other.add(NCCL_HORING_TIMEOUT_MS, 15000);
  same.add(NCCL_HORING_TIMEOUT_MS, 20000);
  EXPECT_NCCL(reduceWith(same, comms[0]));
  EXPECT_TRUE(refuses(reduceWith(other, comms[0]), ncclInvalidUsage, "horingCommSetTimeout"));
  int ms = -1;
  EXPECT_EQ(horingCommGetTimeout(comm, &ms), horingSuccess);
  EXPECT_EQ(ms, 20000);
  EXPECT_EQ(horingCommSetTimeout(comm, 15000), horingSuccess);
  EXPECT_NCCL(reduceWith(other, comms[0]));
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_TRUE(refuses(reduceWith(same, comms[0]), ncclInvalidUsage, "NCCL_HORING_TIMEOUT_MS"));
  EXPECT_TRUE(refuses(ncclGroupEnd(), ncclInvalidUsage, "NCCL_HORING_TIMEOUT_MS"));
  destroyAll(comms);
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
