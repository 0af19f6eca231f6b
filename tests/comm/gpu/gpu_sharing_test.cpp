#include "comm/gpu/gpu_sharing.h"

#include <gtest/gtest.h>

#include <vector>

namespace horing {
namespace {

HostIdentity process(const char* node, int64_t pid) {
  HostIdentity identity;
  identity.boot_id = identity.host_override = node;
  identity.pid = pid;
  return identity;
}

TEST(GpuSharing, IsOfMoreProcessesThanGpus) {
  // Two threads of one process among them, and one of another node.
  const std::vector<HostIdentity> ranks = {process("a", 1), process("a", 1), process("a", 2), process("b", 3),
                                           process("a", 4)};
  const auto shares = [&](int rank, int gpus) {
    return mayShareGpus(ranks, rank, [gpus] { return Result<int>(gpus); });
  };
  EXPECT_TRUE(shares(0, 1));
  EXPECT_TRUE(shares(0, 2));
  EXPECT_FALSE(shares(4, 3));
  EXPECT_FALSE(shares(3, 0)) << "alone, whatever is counted";
  EXPECT_FALSE(mayShareGpus(ranks, 0, [] { return makeStatus(Code::kSystemError, "no NVML"); }));
}

}  // namespace
}  // namespace horing
