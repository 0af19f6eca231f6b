// Caches as a folder of files, never those of the test machine.
#include "topology/cpu_caches.h"

#include "fake_root.h"

namespace horing {
namespace {

struct Cache {
  const char *level, *type, *size, *shared_cpu_map;
};

class CpuCachesTest : public FakeRoot {
 protected:
  void add(const Cache& cache) {
    const std::string folder = "sys/devices/system/cpu/cpu5/cache/index" + std::to_string(count_++) + "/";
    write(folder + "level", cache.level + std::string("\n"));
    write(folder + "type", cache.type + std::string("\n"));
    write(folder + "size", cache.size + std::string("\n"));
    write(folder + "shared_cpu_map", cache.shared_cpu_map + std::string("\n"));
  }
  CpuCaches found() { return findCpuCaches(5, root_.string()); }

  int count_ = 0;
};

TEST_F(CpuCachesTest, AreThoseOfTheSecondAndTheLastLevelWithWhoSharesThat) {
  add({"1", "Data", "32K", "00000020"});
  add({"1", "Instruction", "64K", "00000020"});
  add({"2", "Unified", "1024K", "00000020"});
  add({"3", "Unified", "32768K", "00ff,000000ff"});
  EXPECT_EQ(found(), (CpuCaches{1 << 20, 32 << 20, 16}));
}

TEST_F(CpuCachesTest, EndWithTheSecondLevelWhereThereIsNoOther) {
  add({"2", "Unified", "4096K", "0000000f"});
  add({"1", "Data", "64K", "00000020"});
  EXPECT_EQ(found(), (CpuCaches{4 << 20, 4 << 20, 4}));
}

TEST_F(CpuCachesTest, AreUnknownWhereNothingIsSaidOrNothingThatMakesSense) {
  EXPECT_EQ(found(), CpuCaches());
  for (const char* size : {"", "K", "-1K", "0K", "12", "12M", "99999999999999999999K", "70000000000K"})
    add({"3", "Unified", size, "1"});
  EXPECT_EQ(found(), CpuCaches());
  add({"3", "Unified", "1024K", "no mask"});
  EXPECT_EQ(found(), (CpuCaches{0, 1 << 20, 1}));
}

}  // namespace
}  // namespace horing
