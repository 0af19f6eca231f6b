#pragma once
// A place in memory at which the process sends itself a signal when it first reads there: so it is caught in the middle of
// whatever reads, wherever that runs. Once in a process.
#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <functional>

namespace trap {

inline constexpr uintptr_t kPageBytes = 4096;
inline void* page = nullptr;
inline int signal_number = 0;
inline std::function<void()> before;  // called on the reading thread before the read

inline void caught(int, siginfo_t* fault, void*) {
  if (reinterpret_cast<uintptr_t>(fault->si_addr) / kPageBytes !=
      reinterpret_cast<uintptr_t>(page) / kPageBytes) {
    signal(SIGSEGV, SIG_DFL);  // it faults again
    return;
  }
  before();
  raise(signal_number);
  // The process was resumed.
  mprotect(page, kPageBytes, PROT_READ | PROT_WRITE);
}

// The page of memory that `at` is on must be mapped by itself. False: it cannot be protected.
inline bool set(const void* at, int number, std::function<void()> call_before) {
  page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) / kPageBytes * kPageBytes);
  signal_number = number;
  before = std::move(call_before);
  struct sigaction action {};
  action.sa_sigaction = caught;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGSEGV, &action, nullptr) == 0 && mprotect(page, kPageBytes, PROT_NONE) == 0;
}

}  // namespace trap
