#pragma once
// A block of a GPU's threads on the host, for code that takes its block as a parameter (engine/cuda/lane.h).
#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "engine/cuda/exchange.h"
#include "engine/cuda/lane.h"
#include "fibers.h"

namespace horing::test {

// The threads of a block. The barrier orders what they do, as a GPU's does.
class EmulatedThreads {
 public:
  explicit EmulatedThreads(uint32_t threads) : threads_(threads) {}

  uint32_t threads() const { return threads_; }

  bool any(bool value) {
    const uint64_t generation = generation_.load(std::memory_order_relaxed);
    if (value) any_[generation % 2].store(true, std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      any_[(generation + 1) % 2].store(false, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
    } else {
      while (generation_.load(std::memory_order_acquire) == generation) pause();
    }
    return any_[generation % 2].load(std::memory_order_relaxed);
  }

  static void pause() {
    if (Fibers* const fibers = Fibers::running()) return fibers->yield();
    // Dozens of threads that only yield leave those that have something to do no time.
    static thread_local uint32_t pauses = 0;
    if (++pauses % 8 != 0) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

 private:
  uint32_t threads_;
  std::atomic<uint32_t> arrived_ = 0;
  std::atomic<uint64_t> generation_ = 0;
  std::atomic<bool> any_[2] = {false, false};
};

// With what they share.
template <class Shared>
class EmulatedBlockOf : public EmulatedThreads {
 public:
  using EmulatedThreads::EmulatedThreads;
  Shared& shared() { return shared_; }

 private:
  Shared shared_;
};

// One of its threads.
template <class Shared>
class EmulatedThreadOf {
 public:
  EmulatedThreadOf(EmulatedBlockOf<Shared>& block, uint32_t thread) : block_(block), thread_(thread) {}
  uint32_t thread() const { return thread_; }
  uint32_t threads() const { return block_.threads(); }
  void sync() { block_.any(false); }
  bool any(bool value) { return block_.any(value); }
  void pause() { EmulatedThreads::pause(); }
  uint64_t nowNs() const { return static_cast<uint64_t>(SteadyClock().nowNs()); }
  Shared& shared() { return block_.shared(); }

 private:
  EmulatedBlockOf<Shared>& block_;
  uint32_t thread_;
};

using EmulatedBlock = EmulatedBlockOf<cuda::LaneShared>;
using EmulatedThread = EmulatedThreadOf<cuda::LaneShared>;
using EmulatedExchangeBlock = EmulatedBlockOf<cuda::ExchangeShared>;
using EmulatedExchangeThread = EmulatedThreadOf<cuda::ExchangeShared>;

}  // namespace horing::test
