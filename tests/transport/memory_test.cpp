// Memory that peers map: its contents, its state after the owner frees it, and false names.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "../open_descriptors.h"
#include "transport/memory/segment_list.h"

namespace horing {
namespace {

std::byte* allocate(SegmentList& list, uint64_t bytes) {
  auto data = list.allocate(bytes);
  EXPECT_TRUE(data.ok()) << data.status().toString();
  return data.ok() ? data.value() : nullptr;
}

// The exit code of a child that runs `body`.
int inChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

uint64_t pagesHeld(int fd) {
  struct stat facts {};
  EXPECT_EQ(::fstat(fd, &facts), 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512 / kSegmentPageBytes;
}

TEST(Segment, IsZeroedAlignedAndFound) {
  SegmentList list;
  for (const uint64_t bytes :
       {uint64_t{1}, kSegmentPageBytes, kSegmentPageBytes + 1, 3 * kHugePageBytes + 5}) {
    std::byte* data = allocate(list, bytes);
    ASSERT_NE(data, nullptr);
    const uint64_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kSegmentPageBytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u) << bytes;
    EXPECT_TRUE(std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; }));
    const auto last = list.find(data + bytes - 1, 1);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->offset, bytes - 1);
    EXPECT_EQ(last->name.bytes, bytes);
    EXPECT_TRUE(list.find(data, bytes));
    EXPECT_FALSE(list.find(data, bytes + 1)) << "reaches beyond";
    EXPECT_FALSE(list.find(data + bytes, 1));
    EXPECT_FALSE(list.find(data - 1, 1));
    EXPECT_TRUE(list.free(data).ok());
    EXPECT_FALSE(list.find(data, 1));
  }
  int ordinary = 0;
  EXPECT_FALSE(list.find(&ordinary, sizeof ordinary));
}

// Without a sanitizer, which would touch its own pages at each write.
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"))) void writeToEachPage(
    std::byte* data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kSegmentPageBytes) data[at] = std::byte{1};
}

TEST(Segment, IsTouchedWhenAllocated) {
  SegmentList list;
  constexpr uint64_t kBytes = 8u << 20;
  std::byte* data = allocate(list, kBytes);
  struct rusage before {
  }, after{};
  ::getrusage(RUSAGE_THREAD, &before);
  writeToEachPage(data, kBytes);
  ::getrusage(RUSAGE_THREAD, &after);
  constexpr long kPages = kBytes / kSegmentPageBytes;
  EXPECT_LT(after.ru_minflt - before.ru_minflt, kPages / 100) << "of " << kPages << " pages";
  EXPECT_TRUE(list.free(data).ok());
}

// Page faults of this process.
int64_t faults() {
  rusage use{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &use), 0);
  return use.ru_minflt;
}

// Whether the kernel makes huge pages of shared memory on demand: Linux 6.1 and later may.
bool hasHugePages() {
  constexpr int kCollapse = 25;
  constexpr uint64_t kBytes = 2 * kHugePageBytes;  // of addresses, for one that is aligned
  const int fd = ::memfd_create("huge page", MFD_CLOEXEC);
  EXPECT_EQ(::posix_fallocate(fd, 0, kHugePageBytes), 0);
  auto* const reserved =
      static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::byte* const aligned =
      reserved + (kHugePageBytes - reinterpret_cast<uintptr_t>(reserved) % kHugePageBytes);
  EXPECT_NE(::mmap(aligned, kHugePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
            MAP_FAILED);
  const bool has = ::madvise(aligned, kHugePageBytes, kCollapse) == 0;
  ::munmap(reserved, kBytes);
  ::close(fd);
  return has;
}

// Pages that are touched one by one, then copied into huge ones, take about ten times as long.
TEST(Segment, IsMadeOfHugePagesAtOnce) {
  constexpr uint64_t kBytes = 8 * kHugePageBytes;
  if (!hasHugePages()) GTEST_SKIP() << "this kernel makes no huge pages of shared memory";
  SegmentList list;
  int64_t least = INT64_MAX;
  for (int round = 0; round < 3; ++round) {  // memory may be in pieces at one time
    const int64_t before = faults();
    std::byte* const data = allocate(list, kBytes);
    least = std::min(least, faults() - before);
    EXPECT_TRUE(list.free(data).ok());
  }
  EXPECT_LT(least, static_cast<int64_t>(kBytes / kSegmentPageBytes / 4));
}

TEST(Segment, IsReadByAnotherProcess) {
  SegmentList list;
  constexpr uint64_t kBytes = 3 * kHugePageBytes;
  std::byte* data = allocate(list, kBytes);
  data[0] = std::byte{1};
  data[kBytes - 1] = std::byte{2};
  const SegmentName name = list.find(data, kBytes)->name;
  EXPECT_EQ(inChild([&] {
              // Uses only the name, not the inherited mapping.
              const auto peer = PeerSegment::open(name);
              if (!peer.ok()) return 1;
              const std::byte* seen = peer.value().data();
              return seen != data && seen[0] == std::byte{1} && seen[kBytes - 1] == std::byte{2} ? 0 : 2;
            }),
            0);
  EXPECT_TRUE(list.free(data).ok());
}

TEST(Segment, GivesItsPagesBackThoughPeersHaveItMapped) {
  SegmentList list;
  constexpr uint64_t kBytes = 4u << 20;
  std::byte* data = allocate(list, kBytes);
  data[5] = std::byte{7};
  const SegmentName name = list.find(data, kBytes)->name;
  const Fd watch(::open(formatString("/proc/self/fd/%d", name.fd).c_str(), O_RDONLY | O_CLOEXEC));
  auto peer = PeerSegment::open(name);
  ASSERT_TRUE(peer.ok()) << peer.status().toString();
  EXPECT_EQ(peer.value().data()[5], std::byte{7});
  EXPECT_FALSE(peer.value().freed());
  EXPECT_GE(pagesHeld(watch.get()), kBytes / kSegmentPageBytes);
  ASSERT_TRUE(list.free(data).ok());
  EXPECT_TRUE(peer.value().freed());
  EXPECT_LE(pagesHeld(watch.get()), 2u);
  EXPECT_EQ(peer.value().data()[5], std::byte{0}) << "late readers read zeros, and do not crash";
  EXPECT_FALSE(PeerSegment::open(name).ok()) << "a stale name";
}

// Whole pages of the part that is cut off: late writes of the peer, and later writes of the owner, are not visible to the other.
TEST(Segment, IsCutOffFromPeersThatHaveItMapped) {
  SegmentList list;
  constexpr size_t kPages = 8;
  std::byte* const data = allocate(list, kPages * kSegmentPageBytes);
  Result<PeerSegment> peer = PeerSegment::open(list.find(data, 1)->name);
  ASSERT_TRUE(peer.ok()) << peer.status().toString();
  const auto writeAsPeer = [&](std::byte value) {
    std::fill_n(peer.value().data(), kPages * kSegmentPageBytes, value);
  };
  writeAsPeer(std::byte{1});
  EXPECT_TRUE(list.cutOff(data + kSegmentPageBytes + 5, 4 * kSegmentPageBytes).ok());
  writeAsPeer(std::byte{2});
  const auto pageHas = [&](size_t page, std::byte value) {
    const std::byte* const begin = data + page * kSegmentPageBytes;
    return std::all_of(begin, begin + kSegmentPageBytes, [&](std::byte byte) { return byte == value; });
  };
  for (size_t page = 0; page < kPages; ++page)
    EXPECT_TRUE(pageHas(page, page >= 2 && page < 5 ? std::byte{1} : std::byte{2})) << page;
  data[2 * kSegmentPageBytes] = std::byte{3};
  EXPECT_EQ(peer.value().data()[2 * kSegmentPageBytes], std::byte{2});
  EXPECT_FALSE(list.find(data, 1).has_value()) << "nobody is told of it any more";
  EXPECT_TRUE(list.cutOff(data, kSegmentPageBytes - 1).ok()) << "no whole page";
  EXPECT_TRUE(pageHas(0, std::byte{2}));
  EXPECT_TRUE(list.cutOff(&list, 1).ok());
  EXPECT_TRUE(list.free(data).ok());
}

TEST(Segment, LeavesNothingBehind) {
  SegmentList list;
  const int before = test::openDescriptors();
  for (int i = 0; i < 100; ++i) {
    std::byte* data = allocate(list, 10000);
    ASSERT_TRUE(PeerSegment::open(list.find(data, 1)->name).ok());
    ASSERT_TRUE(list.free(data).ok());
  }
  EXPECT_EQ(test::openDescriptors(), before);
}

TEST(Segment, CannotBeShrunkUnderAReader) {
  SegmentList list;
  std::byte* data = allocate(list, 100000);
  const SegmentName name = list.find(data, 1)->name;
  EXPECT_NE(::ftruncate(name.fd, 0), 0);
  EXPECT_TRUE(list.free(data).ok());
}

TEST(Segment, RefusesSizesThatCannotBe) {
  SegmentList list;
  for (const uint64_t bytes : {uint64_t{0}, UINT64_MAX, UINT64_MAX - kSegmentPageBytes, uint64_t{1} << 60})
    EXPECT_EQ(list.allocate(bytes).status().code(), Code::kInvalidArgument) << bytes;
}

TEST(Segment, SaysThatDescriptorsAreUsedUp) {
  SegmentList list;
  struct rlimit old {};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const struct rlimit none = {0, old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const Status status = list.allocate(4096).status();
  ::setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.message().find("ulimit -n"), std::string::npos) << status.message();
}

TEST(SegmentList, RefusesWhatItDidNotGive) {
  SegmentList list;
  std::byte* data = allocate(list, 4096);
  int ordinary = 0;
  for (void* wrong : {static_cast<void*>(&ordinary), static_cast<void*>(data + 64)})
    EXPECT_EQ(list.free(wrong).code(), Code::kInvalidArgument);
  EXPECT_TRUE(list.free(data).ok());
  EXPECT_EQ(list.free(data).code(), Code::kInvalidArgument) << "freed twice";
}

TEST(SegmentList, LeavesAParentsMemoryAloneInAForkedChild) {
  SegmentList list;
  std::byte* data = allocate(list, 4096);
  data[0] = std::byte{9};
  EXPECT_EQ(inChild([&] {
              if (list.free(data).code() != Code::kInvalidUsage || list.find(data, 1)) return 1;
              auto own = list.allocate(4096);
              return own.ok() && list.find(own.value(), 4096) && list.free(own.value()).ok() ? 0 : 2;
            }),
            0);
  EXPECT_EQ(inChild([&] {
              list.~SegmentList();  // as a child that ends in good order does
              return 0;
            }),
            0);
  EXPECT_EQ(data[0], std::byte{9}) << "a child that ended took the pages with it";
  EXPECT_TRUE(list.find(data, 1));
  EXPECT_TRUE(list.free(data).ok());
}

TEST(PeerSegment, RefusesNamesThatLie) {
  SegmentList list;
  std::byte* data = allocate(list, 10000);
  const SegmentName good = list.find(data, 1)->name;
  ASSERT_TRUE(PeerSegment::open(good).ok());
  const auto refused = [&](const std::function<void(SegmentName&)>& lie) {
    SegmentName name = good;
    lie(name);
    const Status status = PeerSegment::open(name).status();
    EXPECT_FALSE(status.message().empty());
    return !status.ok();
  };
  EXPECT_TRUE(refused([](SegmentName& name) { name = {}; }));
  EXPECT_TRUE(refused([](SegmentName& name) { ++name.id; }));
  EXPECT_TRUE(refused([](SegmentName& name) { name.bytes *= 2; }));
  EXPECT_TRUE(refused([](SegmentName& name) { name.bytes = 0; }));
  EXPECT_TRUE(refused([](SegmentName& name) { name.bytes = UINT64_MAX - 100; }));
  for (const int pid : {-1, 0, 1, INT32_MAX, INT32_MIN})
    EXPECT_TRUE(refused([=](SegmentName& name) { name.pid = pid; }));
  for (const int fd : {-1, 0, 1, 2, 100000, INT32_MAX})
    EXPECT_TRUE(refused([=](SegmentName& name) { name.fd = fd; }));
  // A memfd with the right name, whose owner can still shrink it.
  const Fd unsealed(::memfd_create(formatString("horing-%016lx", good.id).c_str(), MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 16384), 0);
  EXPECT_TRUE(refused([&](SegmentName& name) { name.fd = unsealed.get(); }));
  EXPECT_TRUE(list.free(data).ok());
}

}  // namespace
}  // namespace horing
