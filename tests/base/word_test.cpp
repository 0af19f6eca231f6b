#include "base/word.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

TEST(Word, IsTheSameInCapitals) {
  EXPECT_TRUE(isSameWord("info", "INFO"));
  EXPECT_TRUE(isSameWord("AF_INET6", "af_inet6"));
  EXPECT_TRUE(isSameWord("", ""));
}

TEST(Word, IsAnotherWithOtherLetters) {
  EXPECT_FALSE(isSameWord("info", "inf"));
  EXPECT_FALSE(isSameWord("inf", "info"));
  EXPECT_FALSE(isSameWord("ring", "rong"));
  EXPECT_FALSE(isSameWord("[a", "{a")) << "as far apart as i and I";
}

}  // namespace
}  // namespace horing
