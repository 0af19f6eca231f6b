#pragma once
// A block of a GPU's threads on the host, for code that takes its block as a parameter (engine/cuda/lane.h).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "engine/cuda/copy_run.h"
#include "engine/cuda/exchange.h"
#include "engine/cuda/lane.h"
#include "fibers.h"

namespace horing::test {

// The threads of a block. The barrier orders their accesses, as a GPU's does.
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
      generation_.notify_all();
    } else if (Fibers::running()) {
      while (generation_.load(std::memory_order_acquire) == generation) pause();
    } else {
      generation_.wait(generation, std::memory_order_acquire);
    }
    return any_[generation % 2].load(std::memory_order_relaxed);
  }

  static void pause() {
    if (Fibers* const fibers = Fibers::running()) return fibers->yield();
    // Dozens of threads that only yield would starve the threads with work.
    static thread_local uint32_t pauses = 0;
    static thread_local const auto begin = std::chrono::steady_clock::now();
    if (++pauses % 8 != 0) return std::this_thread::yield();
    std::this_thread::sleep_for(
        std::max<std::chrono::nanoseconds>(std::chrono::microseconds(100), napSince(begin)));
  }

 private:
  uint32_t threads_;
  std::atomic<uint32_t> arrived_ = 0;
  std::atomic<uint64_t> generation_ = 0;
  std::atomic<bool> any_[2] = {false, false};
};

// With their shared memory. Crews of two if the number is even, else of one thread.
template <class Shared>
class EmulatedBlockOf : public EmulatedThreads {
 public:
  explicit EmulatedBlockOf(uint32_t threads)
      : EmulatedThreads(threads), threads_of_crew_(threads > 2 && threads % 2 == 0 ? 2 : 1) {
    for (uint32_t first = 0; first < threads; first += threads_of_crew_)
      crews_.emplace_back(threads_of_crew_);
    HORING_CHECK_LE(crews(), cuda::kMostCrews);
  }
  Shared& shared() { return shared_; }
  uint32_t threadsOfCrew() const { return threads_of_crew_; }
  EmulatedThreads& crew(size_t number) { return crews_[number]; }
  int32_t crews() const { return static_cast<int32_t>(crews_.size()); }

 private:
  Shared shared_;
  const uint32_t threads_of_crew_;
  std::deque<EmulatedThreads> crews_;
};

// A thread among those of one barrier.
class EmulatedThread {
 public:
  EmulatedThread(EmulatedThreads& all, uint32_t thread) : all_(all), thread_(thread) {}
  uint32_t thread() const { return thread_; }
  uint32_t threads() const { return all_.threads(); }
  bool any(bool value) { return all_.any(value); }
  void sync() { (void)any(false); }
  void pause() { EmulatedThreads::pause(); }
  void nap() { pause(); }
  uint64_t nowNs() const { return static_cast<uint64_t>(SteadyClock().nowNs()); }

 private:
  EmulatedThreads& all_;
  const uint32_t thread_;
};

class EmulatedCrew : public EmulatedThread {
 public:
  static constexpr bool kIsCrew = true;
  EmulatedCrew(EmulatedThreads& all, uint32_t thread, int32_t number)
      : EmulatedThread(all, thread), number_(number) {}
  int32_t number() const { return number_; }

 private:
  const int32_t number_;
};

// One of a block's.
template <class Shared>
class EmulatedThreadOf : public EmulatedThread {
 public:
  static constexpr bool kIsCrew = false;
  EmulatedThreadOf(EmulatedBlockOf<Shared>& block, uint32_t thread)
      : EmulatedThread(block, thread), block_(block) {}
  Shared& shared() { return block_.shared(); }
  int32_t crews() const { return block_.crews(); }
  EmulatedCrew crew() {
    const uint32_t number = thread() / block_.threadsOfCrew();
    return {block_.crew(number), thread() % block_.threadsOfCrew(), static_cast<int32_t>(number)};
  }

 private:
  EmulatedBlockOf<Shared>& block_;
};

using EmulatedBlock = EmulatedBlockOf<cuda::LaneShared>;
using EmulatedLaneThread = EmulatedThreadOf<cuda::LaneShared>;
using EmulatedExchangeBlock = EmulatedBlockOf<cuda::ExchangeShared>;
using EmulatedExchangeThread = EmulatedThreadOf<cuda::ExchangeShared>;
using EmulatedCopyBlock = EmulatedBlockOf<cuda::CopyShared>;
using EmulatedCopyThread = EmulatedThreadOf<cuda::CopyShared>;

}  // namespace horing::test
