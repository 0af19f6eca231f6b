#pragma once
// Lets memory run out: operator new is the test's, also for the library. In one file of a program.
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

#include "sanitizer.h"

namespace {
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
thread_local int64_t allocations_left = kNever;  // of this thread
}  // namespace

// Sanitizers bring their own operators, and then there is always enough. Not inlined, so that no compiler takes malloc and delete for
// a pair that does not match.
#if !defined(HORING_TEST_ASAN) && !defined(HORING_TEST_TSAN)
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (allocations_left != kNever && --allocations_left < 0) throw std::bad_alloc();
  void* const memory = std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif
