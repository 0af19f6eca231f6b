#pragma once
// The floating-point environment of the thread: how it rounds, whether small numbers become 0, what traps.
#if defined(__SSE__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace horing {

// While it lives, this thread computes as every thread does by default; then the environment of before comes back. What ranks compute must
// not depend on the calling program. Where that has the default environment, which costs 1 ns, flags that were raised stay, as they do
// after any function: to clear them costs 140 ns on some machines. Resource.
class DefaultFloats {
 public:
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

#if defined(__SSE__)
  // Of the x87 unit nothing depends: no long double is computed with.
  DefaultFloats() : before_(_mm_getcsr()) {
    if (isOther()) _mm_setcsr(kDefault);
  }
  ~DefaultFloats() {
    if (isOther()) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80,
                            kFlags = 0x3f;  // all exceptions masked, to nearest; what has happened
  bool isOther() const {
    return (before_ & ~kFlags) != kDefault;
  }
  unsigned before_;
#else
  DefaultFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() {
    std::fesetenv(&before_);
  }

 private:
  std::fenv_t before_;
#endif
};

}  // namespace horing
