// The table of codes in docs/nccl.md.
#include <fstream>

#include "clients.h"

namespace {

// The rows as "number `name`".
std::vector<std::string> codesOfTheGuide() {
  std::ifstream guide(HORING_NCCL_GUIDE);
  std::vector<std::string> codes;
  bool is_inside = false;
  for (std::string line; std::getline(guide, line);) {
    if (line.starts_with("## ")) is_inside = line == "## Error codes";
    if (is_inside && line.starts_with("| ") && line[2] >= '0' && line[2] <= '9')
      codes.push_back(line.substr(2, line.find(" |") - 2));
  }
  return codes;
}

ncclResult_t missRank() {
  const Variable soon("HORING_INIT_TIMEOUT_MS", "200");
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  return ncclCommInitRank(&comm, 2, id, 0);
}
ncclResult_t missRankOf230() {
  const Variable level("HORING_NCCL_LEVEL", "2.30.7");
  return missRank();
}
ncclResult_t wantRdmaDevice() {
  const Variable transports("HORING_TRANSPORTS", "verbs"), device("HORING_IB_HCA", "=none0");
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  return ncclCommInitRank(&comm, 1, id, 0);
}
ncclResult_t loseRank() {
  const std::vector<ncclComm_t> comms = meet(2);
  float x = 1;
  EXPECT_NCCL(ncclCommAbort(comms[1]));
  const ncclResult_t result = ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr);
  EXPECT_NCCL(ncclCommAbort(comms[0]));
  return result;
}
ncclResult_t disagree() {
  const std::vector<ncclComm_t> comms = meet(2);
  ncclResult_t results[2];
  onEveryRank(2, [&](int rank) {
    float x[2] = {};
    const auto at = static_cast<size_t>(rank);
    results[at] = ncclAllReduce(x, x, 1 + at, ncclFloat, ncclSum, comms[at], nullptr);
  });
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommAbort(comm));
  return results[0] == results[1] ? results[0] : ncclNumResults;
}
ncclResult_t beginToMeet() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 2, id, 0, &config);
  EXPECT_NCCL(ncclCommAbort(comm));
  return result;
}

// An internal error would be a mistake; those of CUDA are in gpu_test.cpp.
TEST(NcclErrorCodes, AreThoseOfTheGuide) {
  struct Case {
    const char* code;
    ncclResult_t expected;
    ncclResult_t (*provoke)();
  };
  const Case cases[] = {
      {"0 `ncclSuccess`", ncclSuccess,
       [] { return ncclGroupStart() == ncclSuccess ? ncclGroupEnd() : ncclNumResults; }},
      {"1 `ncclUnhandledCudaError`", ncclUnhandledCudaError, nullptr},
      {"2 `ncclSystemError`", ncclSystemError, wantRdmaDevice},
      {"3 `ncclInternalError`", ncclInternalError, nullptr},
      {"4 `ncclInvalidArgument`", ncclInvalidArgument, [] { return ncclGetVersion(nullptr); }},
      {"5 `ncclInvalidUsage`", ncclInvalidUsage, disagree},
      {"6 `ncclRemoteError`", ncclRemoteError, loseRank},
      {"7 `ncclInProgress`", ncclInProgress, beginToMeet},
      {"8 `ncclTimeout`", ncclTimeout, missRankOf230},
  };
  std::vector<std::string> codes;
  for (const auto& [code, expected, provoke] : cases) {
    codes.emplace_back(code);
    EXPECT_TRUE(std::string(code).starts_with(std::to_string(static_cast<int>(expected)) + ' ')) << code;
    if (!provoke) continue;
    EXPECT_EQ(provoke(), expected) << code << ": " << ncclGetLastError(nullptr);
  }
  EXPECT_EQ(codesOfTheGuide(), codes);
  EXPECT_EQ(missRank(), ncclRemoteError) << "below level 2.30";
}

}  // namespace
