#include "base/float_environment.h"

#include <fenv.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <limits>

namespace horing {
namespace {

// What the compiler must not compute by itself.
float sum(float a, float b) {
  volatile float first = a;
  volatile float second = b;
  return first + second;
}

TEST(DefaultFloats, RoundToNearestWhateverTheCaller) {
  constexpr float kHalfUlp = std::numeric_limits<float>::epsilon() / 2;
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const float theirs = sum(1, kHalfUlp * 1.5F);
    float ours = 0;
    {
      const DefaultFloats floats;
      ours = sum(1, kHalfUlp * 1.5F);
    }
    EXPECT_EQ(sum(1, kHalfUlp * 1.5F), theirs);
    EXPECT_EQ(std::fegetround(), mode);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(ours, 1 + 2 * kHalfUlp);
  }
}

#if defined(__SSE__)
TEST(DefaultFloats, KeepSmallNumbers) {
  constexpr float kSmall = std::numeric_limits<float>::denorm_min();
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, and take such inputs for zero
  EXPECT_EQ(sum(kSmall, kSmall), 0);
  {
    const DefaultFloats floats;
    const float two = sum(kSmall, kSmall);
    EXPECT_EQ(two / kSmall, 2);
  }
  EXPECT_EQ(sum(kSmall, kSmall), 0);
  _mm_setcsr(before);
}
#endif

// As in a program that traps invalid operations of its own computations.
TEST(DefaultFloats, DoNotTrap) {
  const int enabled = ::feenableexcept(FE_INVALID);
#if defined(__aarch64__)
  if (enabled == -1) GTEST_SKIP() << "this processor cannot trap";
#endif
  ASSERT_NE(enabled, -1);
  {
    const DefaultFloats floats;
    sum(std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity());
  }
  EXPECT_EQ(::fegetexcept(), FE_INVALID);
  EXPECT_EQ(std::fetestexcept(FE_INVALID), 0);
  ::fedisableexcept(FE_ALL_EXCEPT);
}

}  // namespace
}  // namespace horing
