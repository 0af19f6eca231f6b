#pragma once
// The floating-point environment of the thread: rounding mode, flush-to-zero, traps.
#if defined(__SSE__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace horing {

// Sets the default floating-point environment on this thread and restores the previous one in the destructor: results must not depend on
// the calling program. To see that the caller has the default environment already takes 1 to 6 ns, depending on the processor
// (bench/README.md); exception flags that were raised meanwhile then stay, because clearing them costs 140 ns on some machines. Resource.
class DefaultFloats {
 public:
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

#if defined(__SSE__)
  // The x87 unit does not matter: nothing computes with long double.
  DefaultFloats() : before_(_mm_getcsr()) {
    if (isOther()) _mm_setcsr(kDefault);
  }
  ~DefaultFloats() {
    if (isOther()) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80,
                            kFlags = 0x3f;  // all exceptions masked, round to nearest; the exception flags
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
