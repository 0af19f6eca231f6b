#include "comm/reach/registrations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace horing {
namespace {

TEST(Registrations, FindsARegionAroundAByte) {
  Registrations registrations;
  std::vector<std::byte> memory(1000);
  std::byte* const begin = memory.data();
  const void* const large = registrations.add(begin, 900).value();
  const void* const inner = registrations.add(begin + 100, 50).value();
  EXPECT_EQ(registrations.find(begin + 120)->bytes, 50u);
  EXPECT_EQ(registrations.find(begin + 150)->bytes, 900u) << "behind a smaller one that begins later";
  EXPECT_EQ(registrations.find(begin + 899)->begin, begin);
  EXPECT_FALSE(registrations.find(begin + 900));
  EXPECT_FALSE(registrations.find(begin - 1));
  const uint64_t id = registrations.find(begin)->id;
  EXPECT_EQ(registrations.remove(large).value(), id);
  EXPECT_FALSE(registrations.remove(large).ok()) << "twice";
  EXPECT_FALSE(registrations.find(begin));
  EXPECT_TRUE(registrations.find(begin + 100));
  EXPECT_TRUE(registrations.remove(inner).ok());
  EXPECT_FALSE(registrations.find(begin + 100));
}

// Memory that a call lends to transports may stay lent until its registration is removed: the removal must see that it was lent.
TEST(Registrations, ARegionIsNotRemovedWhileItIsUsed) {
  Registrations registrations;
  std::byte memory[64];
  void* const handle = registrations.add(memory, sizeof memory).take();
  std::atomic<bool> is_removed{false};
  std::thread remover;
  bool was_removed_inside = true;
  registrations.withRegion(memory, [&](const Region&) {
    remover = std::thread([&] {
      EXPECT_TRUE(registrations.remove(handle).ok());
      is_removed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    was_removed_inside = is_removed;
  });
  remover.join();
  EXPECT_FALSE(was_removed_inside);
  EXPECT_TRUE(is_removed);
  registrations.withRegion(memory, [](const Region&) { ADD_FAILURE() << "is removed"; });
}

}  // namespace
}  // namespace horing
