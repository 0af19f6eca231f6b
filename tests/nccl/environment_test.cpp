// NCCL's variables, as the libraries and the programs see them.
#include <unistd.h>

#include <fstream>

#include "../temporary_folder.h"
#include "clients.h"
#include "horing/horing.h"
#include "nccl/variables.h"

namespace {

using horing::nccl::Mapping;

// What NCCL's variables say of one of horing's.
std::optional<std::string> mapped(std::string_view own,
                                  std::vector<std::pair<std::string_view, std::string>> environment) {
  const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
    for (const auto& [known, value] : environment)
      if (known == name) return value;
    return {};
  };
  for (const Mapping& mapping : horing::nccl::mappings())
    if (own == mapping.own) return mapping.value(lookup, mapping.from);
  ADD_FAILURE() << own << " is not in the table";
  return {};
}

TEST(NcclVariables, MeanWhatNcclMeans) {
  EXPECT_EQ(mapped("HORING_SOCKET_IFNAME", {{"NCCL_SOCKET_IFNAME", "^docker"}}), "^docker");
  EXPECT_EQ(mapped("HORING_SOCKET_IFNAME", {}), std::nullopt);
  EXPECT_EQ(mapped("HORING_TRANSPORTS", {{"NCCL_IB_DISABLE", "1"}}), "shm,socket");
  EXPECT_EQ(mapped("HORING_TRANSPORTS", {{"NCCL_IB_DISABLE", "0"}}), std::nullopt);
  EXPECT_EQ(mapped("HORING_TRANSPORTS", {{"NCCL_SHM_DISABLE", "1"}, {"NCCL_NET", "Socket"}}), "socket");
  EXPECT_EQ(mapped("HORING_TRANSPORTS", {{"NCCL_NET", "IB"}}), "shm,verbs");
  EXPECT_EQ(mapped("HORING_GPU_PATH", {{"NCCL_P2P_LEVEL", "LOC"}}), "staged");
  EXPECT_EQ(mapped("HORING_GPU_PATH", {{"NCCL_P2P_LEVEL", "NVL"}}), std::nullopt);
  EXPECT_EQ(mapped("HORING_IB_GPU_MEMORY", {{"NCCL_NET_GDR_LEVEL", "0"}}), "0");
  EXPECT_EQ(mapped("HORING_SOCKET_STREAMS", {{"NCCL_SOCKET_NTHREADS", "4"}, {"NCCL_NSOCKS_PERTHREAD", "8"}}),
            "16");
  EXPECT_EQ(mapped("HORING_SOCKET_STREAMS", {{"NCCL_NSOCKS_PERTHREAD", "2"}}), "2");
  EXPECT_EQ(mapped("HORING_SOCKET_STREAMS",
                   {{"NCCL_SOCKET_NTHREADS", "4611686018427387904"}, {"NCCL_NSOCKS_PERTHREAD", "4"}}),
            "16");
  EXPECT_EQ(mapped("HORING_IB_HCA", {{"NCCL_IB_HCA", "=mlx5_0:1:2:3,mlx5_1"}}), "=mlx5_0:1,mlx5_1");
  EXPECT_EQ(mapped("HORING_IB_RETRIES", {{"NCCL_IB_RETRY_CNT", "7"}}), "6");
  EXPECT_EQ(mapped("HORING_IB_RELAXED_ORDERING", {{"NCCL_IB_PCI_RELAXED_ORDERING", "2"}}), "1");
  EXPECT_EQ(mapped("HORING_GPU_BLOCKS", {{"NCCL_MAX_NCHANNELS", "8"}}), "8");
  EXPECT_EQ(mapped("HORING_GPU_BLOCKS", {{"NCCL_MAX_NCHANNELS", "many"}}), std::nullopt);
  EXPECT_EQ(mapped("HORING_DEBUG_FILE", {{"NCCL_DEBUG", "INFO"}}), "stdout");
  EXPECT_EQ(mapped("HORING_DEBUG_FILE", {{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", "/tmp/%h.%p"}}),
            "/tmp/%h.%p");
  EXPECT_EQ(mapped("HORING_DEBUG", {{"NCCL_DEBUG", "Info"}}), "Info");
  EXPECT_EQ(mapped("HORING_DEBUG", {{"NCCL_DEBUG", "loud"}}), std::nullopt);
  EXPECT_EQ(mapped("HORING_DEBUG_FILE", {{"NCCL_DEBUG", "loud"}}), std::nullopt);
  EXPECT_EQ(mapped("HORING_SOCKET_FAMILY", {{"NCCL_SOCKET_FAMILY", "AF_INET6"}}), "AF_INET6");
  EXPECT_EQ(mapped("HORING_SOCKET_FAMILY", {{"NCCL_SOCKET_FAMILY", "AF_UNIX"}}), std::nullopt);
}

std::string described() {
  const std::vector<ncclComm_t> comms = meet(2);
  char text[4096] = "";
  EXPECT_EQ(horingCommDescribe(reinterpret_cast<horingComm_t>(comms[0]), text, sizeof text), horingSuccess);
  destroyAll(comms);
  return text;
}

TEST(NcclEnvironment, ReachesHoringAndLeavesTheEnvironmentAlone) {
  {
    const Variable network("NCCL_SHM_DISABLE", "1"), algorithm("NCCL_ALGO", "allreduce:Ring");
    const std::string text = described();
    EXPECT_NE(text.find("socket"), std::string::npos) << text;
    EXPECT_EQ(text.find("shm"), std::string::npos) << text;
    EXPECT_EQ(std::getenv("HORING_TRANSPORTS"), nullptr);
    // Ours win where both are set.
    const Variable own("HORING_TRANSPORTS", "shm,socket");
    EXPECT_NE(described().find("shm"), std::string::npos);
  }
  EXPECT_NE(described().find("shm"), std::string::npos) << "what NCCL's variables said outlives them";
}

TEST(NcclEnvironment, DecidesWhetherCommunicatorsBlock) {
  const Variable not_blocking("NCCL_COMM_BLOCKING", "0");
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclResult_t state = ncclCommInitRank(&comm, 1, id, 0);
  EXPECT_EQ(state, ncclInProgress);
  while (state == ncclInProgress) ASSERT_NCCL(ncclCommGetAsyncError(comm, &state));
  EXPECT_NCCL(state);
  EXPECT_NCCL(ncclCommDestroy(comm));
}

// The user set NCCL's.
TEST(NcclEnvironment, IsNamedWhereItIsWrong) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  {
    const Variable wrong("NCCL_ALGO", "spiral");
    EXPECT_TRUE(refuses(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument,
                        "(HORING_ALGO is set by NCCL_ALGO=spiral)"));
    const Variable own("HORING_ALGO", "coil");
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument);
    EXPECT_EQ(std::string(ncclGetLastError(nullptr)).find("is set by"), std::string::npos)
        << ncclGetLastError(nullptr);
  }
  ASSERT_NCCL(ncclCommInitRank(&comm, 1, id, 0));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(NcclEnvironment, LogsInNcclsFormIntoItsFile) {
  const horing::test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/log.";
  const Variable file("NCCL_DEBUG_FILE", path + "%p"), level("NCCL_DEBUG", "INFO"),
      unknown("NCCL_CUMEM_ENABLE", "0");
  // As on a machine without RDMA devices.
  const Variable transports("HORING_TRANSPORTS", "shm,verbs,socket"), devices("HORING_IB_HCA", "=none");
  destroyAll(meet(2));
  std::ifstream log(path + std::to_string(::getpid()));
  const std::string text{std::istreambuf_iterator<char>(log), {}};
  EXPECT_NE(text.find("NCCL version 2.28.9+cuda"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL INFO ncclCommInitRankConfig comm 0x"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0 nranks 2 "), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL INFO Using network Socket\n"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL INFO Channel 00/0 : 1[1] -> 0[0] via SHM/"), std::string::npos) << text;
  EXPECT_NE(text.find("- Init COMPLETE\n"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL_CUMEM_ENABLE=0 (environment): changes nothing: "), std::string::npos) << text;
}

}  // namespace
