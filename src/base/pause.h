#pragma once
// How a thread waits between looks.
#include <algorithm>
#include <chrono>
#include <cstdint>

namespace horing {

// How long to sleep before the next look at what nothing announces and may take long, such as the work before an operation on a stream of
// CUDA: so that it is seen late by a 32nd of the time that it takes, at most by 0.2 ms, also where each step of a program begins with it.
inline std::chrono::microseconds napAfter(int64_t waited_ns) {
  return std::chrono::microseconds(std::clamp<int64_t>(waited_ns / 32'000, 20, 200));
}

// In a loop that waits for another thread: leaves the core to its other hardware thread for a moment.
inline void pauseCore() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace horing
