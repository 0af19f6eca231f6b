// Settings of one call through NCCL's interface.
#include "clients.h"

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

}  // namespace
