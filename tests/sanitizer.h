#pragma once
// The sanitizer that a test is built with: its limits, and its slowdown.
#include <cstddef>
#include <span>

// gcc defines macros, clang has __has_feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HORING_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define HORING_TEST_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(HORING_TEST_ASAN)
#define HORING_TEST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(HORING_TEST_TSAN)
#define HORING_TEST_TSAN 1
#endif

namespace horing::test {

#if defined(HORING_TEST_TSAN)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(HORING_TEST_ASAN) || defined(HORING_TEST_TSAN)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = false;
#endif

// Multiplies every bound on how long something may take or how busy it may be.
inline constexpr int kSlowdown = kSanitizer ? 5 : 1;

// For tests that let a deadline pass, in ms: all that is to happen before it does so on a machine that is busy with other tests, too.
inline constexpr int kShortDeadlineMs = kSanitizer ? 4000 : 1000;

// What a suite runs on: all of it, and under a sanitizer the first `few`. For lists that begin with whatever runs code of its own.
template <typename T, size_t kAll>
constexpr std::span<const T> firstUnderSanitizer(size_t few, const T (&all)[kAll]) {
  return std::span<const T>(all).first(kSanitizer ? few : kAll);
}

// How far a sweep goes whose cost grows faster than its limit: the same code runs, so half as far shows a sanitizer as much.
constexpr int sweepTo(int limit) {
  return kSanitizer ? (limit + 1) / 2 : limit;
}

// How many random cases are tried of what computes in one thread: a fifth under a sanitizer, to which they are the same code. How many may
// go wrong stays the same.
constexpr unsigned casesOf(unsigned all) {
  return kSanitizer ? (all + 4) / 5 : all;
}

}  // namespace horing::test
