#pragma once
// A block of a GPU's threads on the host, for code that takes its block as a parameter (engine/cuda/lane.h).
#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "engine/cuda/lane.h"
#include "fibers.h"

namespace horing::test {

// What the threads of a block share. The barrier orders what they do, as a GPU's does.
class EmulatedBlock {
 public:
  explicit EmulatedBlock(uint32_t threads) : threads_(threads) {}

  uint32_t threads() const { return threads_; }
  cuda::LaneShared& shared() { return shared_; }

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
  cuda::LaneShared shared_;
};

// One of its threads.
class EmulatedThread {
 public:
  EmulatedThread(EmulatedBlock& block, uint32_t thread) : block_(block), thread_(thread) {}
  uint32_t thread() const { return thread_; }
  uint32_t threads() const { return block_.threads(); }
  void sync() { block_.any(false); }
  bool any(bool value) { return block_.any(value); }
  void pause() { EmulatedBlock::pause(); }
  uint64_t nowNs() const { return static_cast<uint64_t>(SteadyClock().nowNs()); }
  cuda::LaneShared& shared() { return block_.shared(); }

 private:
  EmulatedBlock& block_;
  uint32_t thread_;
};

}  // namespace horing::test
