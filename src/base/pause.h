#pragma once

namespace horing {

// In a loop that waits for another thread: leaves the core to its other hardware thread for a moment.
inline void pauseCore() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace horing
