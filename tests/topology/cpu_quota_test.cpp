// Control groups as folders and files, never the test's own.
#include "topology/cpu_quota.h"

#include <sys/stat.h>

#include "fake_root.h"

namespace horing {
namespace {

class CpuQuotaTest : public FakeRoot {
 protected:
  // One of v2, with this limit.
  void group(const std::string& path, const std::string& limit) {
    write("sys/fs/cgroup" + path + "/cpu.max", limit);
  }
  uint64_t inode(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat((root_ / "sys/fs/cgroup" / path).c_str(), &info), 0) << path;
    return info.st_ino;
  }
  CpuQuota found() { return findCpuQuota(root_.string()); }
};

TEST_F(CpuQuotaTest, IsTheTightestOnTheWayUp) {
  write("proc/self/cgroup", "0::/slice/pod/box\n");
  group("/slice", "800000 100000\n");
  group("/slice/pod", "150000 100000\n");
  group("/slice/pod/box", "max 100000\n");
  EXPECT_EQ(found(), (CpuQuota{1500, inode("slice/pod")}));
  group("/slice/pod/box", "50000 100000\n");
  EXPECT_EQ(found(), (CpuQuota{500, inode("slice/pod/box")}));
  group("/slice", "50000 100000\n");
  EXPECT_EQ(found(), (CpuQuota{500, inode("slice")})) << "of equals, the one that more processes share";
}

TEST_F(CpuQuotaTest, OfAContainerIsAtTheMountWhateverItIsCalledOutside) {
  write("proc/self/cgroup", "0::/docker/0123abcd\n");
  group("", "200000 100000\n");
  EXPECT_EQ(found(), (CpuQuota{2000, inode("")}));
  write("proc/self/cgroup", "0::/../../other\n");
  EXPECT_EQ(found(), (CpuQuota{2000, inode("")}));
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(found(), (CpuQuota{2000, inode("")}));
}

TEST_F(CpuQuotaTest, IsReadFromV1) {
  write("proc/self/cgroup", "5:cpuset:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(found(), CpuQuota());
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(found(), (CpuQuota{2500, inode("cpu,cpuacct/box")}));
  std::filesystem::rename(root_ / "sys/fs/cgroup/cpu,cpuacct", root_ / "sys/fs/cgroup/cpu");
  EXPECT_EQ(found(), (CpuQuota{2500, inode("cpu/box")}));
  write("proc/self/cgroup", "5:cpuset,cpuacct:/box\n");
  EXPECT_EQ(found(), CpuQuota()) << "of other controllers";
}

TEST_F(CpuQuotaTest, IsNoLimitWhereNothingSensibleIsSaid) {
  EXPECT_EQ(found(), CpuQuota()) << "nothing there";
  for (const char* list : {"", "\n", "0", "0:", "0::", "0::box", "::::", "0::/box/../..", "9:cpu:"}) {
    write("proc/self/cgroup", list);
    EXPECT_EQ(found(), CpuQuota()) << list;
  }
  write("proc/self/cgroup", "0::/box\n" + std::string(50'000, '/') + "\n");
  for (const char* limit : {"", "max", "max 100000", "0 100000", "-5 100000", "100000", "100000 0",
                            "100000 -1", "x y", "99999999999999999999999999999999999999999999999999 1"}) {
    group("/box", limit);
    EXPECT_EQ(found(), CpuQuota()) << limit;
  }
  group("/box", "999999999999999999 1");
  EXPECT_EQ(found().millicpus, 32'768'000) << "as many as there can be";
  group("/box", "1 999999999999999999");
  EXPECT_EQ(found().millicpus, 1);
}

TEST_F(CpuQuotaTest, WaitsForNothing) {
  write("proc/self/cgroup", "0::/box\n" + std::string("0::/") + std::string(5000, 'a') + "\n");
  std::filesystem::create_directories(root_ / "sys/fs/cgroup/box/cpu.max");  // a folder
  EXPECT_EQ(found(), CpuQuota());
  std::filesystem::remove(root_ / "sys/fs/cgroup/box/cpu.max");
  ASSERT_EQ(::mkfifo((root_ / "sys/fs/cgroup/box/cpu.max").c_str(), 0600), 0);
  EXPECT_EQ(found(), CpuQuota());
}

}  // namespace
}  // namespace horing
