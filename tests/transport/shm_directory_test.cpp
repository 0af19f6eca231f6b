// Names in the directory for shared memory, which come and go while peers look for them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "shm_folder.h"
#include "transport/shm/directory.h"

namespace horing::testing {
namespace {

// A peer whose directory is full makes its file, a link to memory, while this rank looks for it.
TEST(ShmMemory, ThatIsPublishedMeanwhileIsNoError) {
  constexpr auto kLong = std::chrono::seconds(1);
  const ShmFolder folder;
  const std::string path = folder.path() + "/horing-x-0.from-1-0";
  const Fd memory(::memfd_create("horing-slots", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fchmod(memory.get(), 0600), 0);
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  const std::string target = formatString("/proc/%d/fd/%d", ::getpid(), memory.get());
  std::atomic<bool> over{false};
  // It finds the name taken, mostly.
  std::thread peer([&] {
    while (!over) [[maybe_unused]] const int made = ::symlink(target.c_str(), path.c_str());
  });
  int times = 0;
  for (const auto end = std::chrono::steady_clock::now() + kLong; std::chrono::steady_clock::now() < end;) {
    const Result<Fd> opened = openShmMemory(path);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    if (!opened.ok() || !opened.value().valid()) continue;
    ++times;
    ::unlink(path.c_str());
  }
  over = true;
  peer.join();
  EXPECT_GT(times, 0);
}

}  // namespace
}  // namespace horing::testing
