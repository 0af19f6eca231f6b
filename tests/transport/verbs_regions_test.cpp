// The cache of registered memory, on devices that only count registrations.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <thread>

#include "transport/lent_memory.h"
#include "transport/verbs/region_cache.h"

namespace horing::testing {
namespace {

using verbs::Device;
using verbs::Library;
using verbs::RegionCache;
using verbs::RegionLimits;

constexpr size_t kMiB = 1 << 20;

// What all fake devices have together. One test at a time.
struct FakeAdapter {
  std::mutex mutex;
  std::set<ibv_mr*> live;
  size_t locked = 0;
  size_t most_locked = SIZE_MAX;  // as a limit on locked memory
  uint32_t next_key = 1;
} adapter;

ibv_mr* registerMemory(ibv_pd*, void* memory, size_t bytes, int) {
  const std::lock_guard<std::mutex> lock(adapter.mutex);
  if (adapter.locked + bytes > adapter.most_locked) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* const made = new ibv_mr{};
  made->addr = memory;
  made->length = bytes;
  made->lkey = adapter.next_key++;
  made->rkey = adapter.next_key++;
  adapter.locked += bytes;
  adapter.live.insert(made);
  return made;
}
int deregisterMemory(ibv_mr* region) {
  const std::lock_guard<std::mutex> lock(adapter.mutex);
  EXPECT_EQ(adapter.live.erase(region), 1u);
  adapter.locked -= region->length;
  delete region;
  return 0;
}

class VerbsRegions : public ::testing::Test {
 protected:
  VerbsRegions() {
    adapter.most_locked = SIZE_MAX;
    Library library;
    library.regMr = registerMemory;
    library.deregMr = deregisterMemory;
    library.closeDevice = [](ibv_context*) { return 0; };
    for (int i = 0; i < 2; ++i)
      devices_.push_back(std::make_unique<Device>(library, verbs::Port{.device = "fake"}, nullptr, true));
  }
  ~VerbsRegions() override { EXPECT_TRUE(adapter.live.empty()) << "nothing is left behind"; }

  // Addresses are only compared.
  static Region region(uint64_t id, size_t bytes = kMiB) {
    return {id, reinterpret_cast<std::byte*>(id << 32), bytes};
  }
  static Region ofGpu(uint64_t id, bool by_address) {
    Region made = region(id);
    made.of = MemoryOf::kGpu;
    made.by_address = by_address;
    made.dmabuf = 3;
    return made;
  }
  static bool found(const RegionCache& cache, const Region& region) {
    return cache.find(region.begin, region.bytes) != nullptr;
  }
  void use(RegionCache& cache, const Region& region) {
    cache.hold(region);
    cache.release(region);
  }

  std::vector<std::unique_ptr<Device>> devices_;
};

TEST_F(VerbsRegions, AreRegisteredOnceWithEachDeviceAndFoundWhileHeld) {
  RegionCache cache(devices_, {}, Log(LogLevel::kNone));
  const Region one = region(1);
  EXPECT_FALSE(found(cache, one));
  cache.hold(one);
  cache.hold(one);
  EXPECT_EQ(adapter.live.size(), 2u) << "one for each device";
  const RegionCache::Entry* const entry = cache.find(one.begin + 5, 100);
  ASSERT_NE(entry, nullptr);
  EXPECT_NE(entry->localKey(0), entry->localKey(1));
  EXPECT_EQ(cache.find(one.begin + one.bytes - 99, 100), nullptr) << "reaches beyond";
  EXPECT_EQ(cache.find(one.begin - 1, 1), nullptr);
  EXPECT_EQ(cache.find(one.begin + 1, SIZE_MAX), nullptr);
  cache.release(one);
  EXPECT_TRUE(found(cache, one));
  cache.release(one);
  EXPECT_FALSE(found(cache, one));
  cache.hold(one);
  EXPECT_EQ(adapter.live.size(), 2u) << "still registered";
  cache.release(one);
}

TEST_F(VerbsRegions, TheOneThatWasUsedLongestAgoMakesRoom) {
  RegionCache cache(devices_, {.regions = 3, .bytes = SIZE_MAX}, Log(LogLevel::kNone));
  for (const uint64_t id : {1, 2, 3, 1, 4}) use(cache, region(id));
  EXPECT_EQ(cache.regions(), 3u);
  const uint32_t keys = adapter.next_key;
  for (const uint64_t id : {1, 3, 4}) use(cache, region(id));
  EXPECT_EQ(adapter.next_key, keys) << "these were there";
  use(cache, region(2));
  EXPECT_GT(adapter.next_key, keys) << "this was not";
}

TEST_F(VerbsRegions, TheBytesAreBoundedToo) {
  RegionCache cache(devices_, {.regions = 100, .bytes = 3 * kMiB}, Log(LogLevel::kNone));
  for (uint64_t id = 1; id < 10; ++id) {
    use(cache, region(id));
    EXPECT_LE(adapter.locked, 2 * 3 * kMiB);
  }
  cache.hold(region(20, 2 * kMiB));
  const Region large = region(21, 2 * kMiB);
  cache.hold(large);
  EXPECT_FALSE(found(cache, large)) << "what is held stays";
  cache.release(large);
  cache.release(region(20, 2 * kMiB));
  const Region huge = region(22, 4 * kMiB);
  cache.hold(huge);
  EXPECT_FALSE(found(cache, huge));
  cache.release(huge);
}

TEST_F(VerbsRegions, WhatIsHeldIsNotDroppedForOthers) {
  RegionCache cache(devices_, {.regions = 1, .bytes = SIZE_MAX}, Log(LogLevel::kNone));
  cache.hold(region(1));
  cache.hold(region(2));
  EXPECT_TRUE(found(cache, region(1)));
  EXPECT_FALSE(found(cache, region(2)));
  cache.release(region(2));
  cache.release(region(1));
  use(cache, region(3));
  EXPECT_EQ(cache.regions(), 1u);
}

TEST_F(VerbsRegions, UnusedOnesAreGivenUpWhereNoMoreMayBeLocked) {
  adapter.most_locked = 4 * kMiB;
  RegionCache cache(devices_, {}, Log(LogLevel::kNone));
  use(cache, region(1));
  use(cache, region(2));
  const Region third = region(3);
  cache.hold(third);
  EXPECT_TRUE(found(cache, third));
  const Region too_large = region(4, 2 * kMiB);
  cache.hold(too_large);
  EXPECT_FALSE(found(cache, too_large));
  EXPECT_TRUE(found(cache, third));
  EXPECT_EQ(adapter.live.size(), 2u) << "no half of it stays";
  cache.release(too_large);
  cache.release(third);
}

TEST_F(VerbsRegions, OfAGpuAreLeftOutByALibraryThatKnowsNoDmaBuf) {
  RegionCache cache(devices_, {}, Log(LogLevel::kNone));
  const Region of_gpu = ofGpu(1, /*by_address=*/false);
  cache.hold(of_gpu);
  EXPECT_FALSE(found(cache, of_gpu));
  EXPECT_TRUE(adapter.live.empty());
  cache.release(of_gpu);
}

// With nvidia-peermem, which serves adapters and libraries that take no dma-buf.
TEST_F(VerbsRegions, OfAGpuMayBeFoundByTheirAddress) {
  Library library = devices_.front()->library();
  for (const bool has_dmabuf : {false, true}) {
    static int tried;
    tried = 0;
    if (has_dmabuf)
      library.regDmabufMr = [](ibv_pd*, uint64_t, size_t, uint64_t, int, int) -> ibv_mr* {
        ++tried;
        errno = EOPNOTSUPP;
        return nullptr;
      };
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(std::make_unique<Device>(library, verbs::Port{.device = "fake"}, nullptr, true));
    RegionCache cache(devices, {}, Log(LogLevel::kNone));
    for (const bool by_address : {true, false}) {
      const Region of_gpu = ofGpu(by_address ? 1 : 2, by_address);
      cache.hold(of_gpu);
      EXPECT_EQ(found(cache, of_gpu), by_address);
      cache.release(of_gpu);
    }
    EXPECT_EQ(tried > 0, has_dmabuf);
  }
}

TEST_F(VerbsRegions, ForgottenOnesGoAtOnceOrWhenTheyAreReleased) {
  RegionCache cache(devices_, {}, Log(LogLevel::kNone));
  use(cache, region(1));
  cache.hold(region(2));
  std::thread([&] {
    cache.forget(1);
    cache.forget(2);
    cache.forget(3);
  }).join();
  EXPECT_EQ(adapter.live.size(), 2u);
  EXPECT_TRUE(found(cache, region(2)));
  cache.release(region(2));
  EXPECT_TRUE(adapter.live.empty());
}

}  // namespace
}  // namespace horing::testing
