#pragma once
// Fibers: threads that run one at a time in one thread of the system, in an order that a seed gives. So a run can be repeated, and a run
// that hangs is detected by its number of switches.
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace horing::test {

// The sleep between two polls of a wait that began at `begin`. It grows with the time waited: most waits are short, and waits for a
// deadline would otherwise keep a core from other tests.
inline std::chrono::nanoseconds napSince(std::chrono::steady_clock::time_point begin) {
  constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(3);
  return std::min(kMost, (std::chrono::steady_clock::now() - begin) / 64);
}

class Fibers {
 public:
  explicit Fibers(uint64_t seed) : random_(seed) {}
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  void add(std::function<void()> body) {
    auto& fiber = *fibers_.emplace_back(std::make_unique<Fiber>());
    fiber.body = std::move(body);
    fiber.stack.reset(new char[kStackBytes]);
  }

  // Runs all to their ends; false after so many switches, and then their stacks are left as they are.
  bool run(uint64_t most_switches) {
    Fibers* const outer = std::exchange(running(), this);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Fiber*> alive;
    for (const auto& fiber : fibers_) {
      start(*fiber);
      alive.push_back(fiber.get());
    }
    for (; !alive.empty() && most_switches > 0; --most_switches) {
      // Another thread of the system may run what these wait for.
      if (most_switches % 1024 == 0) std::this_thread::sleep_for(napSince(begin));
      const size_t chosen = random_() % alive.size();
      current_ = alive[chosen];
      ::swapcontext(&scheduler_, &current_->context);
      if (!current_->ended) continue;
      alive[chosen] = alive.back();
      alive.pop_back();
    }
    running() = outer;
    return alive.empty();
  }

  // On a fiber: lets others run. Elsewhere null.
  static Fibers*& running() {
    static thread_local Fibers* fibers = nullptr;
    return fibers;
  }
  void yield() { ::swapcontext(&current_->context, &scheduler_); }

 private:
  static constexpr size_t kStackBytes = 64 << 10;
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    std::function<void()> body;
    bool ended = false;
  };

  void start(Fiber& fiber) {
    ::getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &scheduler_;
    ::makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 0);
  }
  static void enter() {
    Fiber& fiber = *running()->current_;
    fiber.body();
    fiber.ended = true;
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_;
};

// What threads of a GPU do.
using Bodies = std::vector<std::function<void()>>;

// In one thread, in an order that the seed gives; false: they hang.
inline bool runAsFibers(const Bodies& bodies, uint64_t seed, uint64_t most_switches) {
  Fibers fibers(seed);
  for (const auto& body : bodies) fibers.add(body);
  return fibers.run(most_switches);
}
// Each a thread of the system.
inline void runAsThreads(const Bodies& bodies) {
  std::vector<std::thread> threads;
  for (const auto& body : bodies) threads.emplace_back(body);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace horing::test
