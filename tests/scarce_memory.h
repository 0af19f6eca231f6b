#pragma once
// Lets memory run out: operator new is the test's, also for the library. In one file of a program.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

#include "sanitizer.h"

namespace {
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
thread_local int64_t allocations_left = kNever;  // of this thread
// Of all other threads, if a thread of the test sets it.
std::atomic<int64_t> allocations_left_elsewhere{kNever};
thread_local bool is_of_test = false;

[[maybe_unused]] bool memoryRanOut() {
  if (allocations_left != kNever && --allocations_left < 0) return true;
  return !is_of_test && allocations_left_elsewhere != kNever && --allocations_left_elsewhere < 0;
}
}  // namespace

// Sanitizers bring their own operators, and then there is always enough. Not inlined, so that no compiler takes malloc and delete for
// a pair that does not match.
#if !defined(HORING_TEST_ASAN) && !defined(HORING_TEST_TSAN)
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (memoryRanOut()) throw std::bad_alloc();
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
