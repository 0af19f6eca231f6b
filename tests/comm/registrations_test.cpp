#include "comm/registrations.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace horing
