#include "allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "../sanitizer.h"

namespace {
std::atomic<uint64_t> allocations{0};
}

// Sanitizers bring their own operators; the plain builds do the counting.
#if !defined(HORING_TEST_ASAN) && !defined(HORING_TEST_TSAN)
// In a separate file, so that no caller sees both halves of an allocation and warns that they do not match.
void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);  // only counted
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif

uint64_t horing::testing::allocationsSoFar() {
  return allocations.load();
}
