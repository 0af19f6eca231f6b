// memory_limits_bench: what the memory of this machine allows. One line of JSON:
//   copy_bytes_per_s   bytes read plus bytes written per second while two threads copy, each its own 64 MiB, past the caches:
//                      the median of 9 copies, as a collective's time is a median, and as warm
//   round_trip_ns      a word to another thread and back, both spinning: the least time of any answer in shared memory
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/clock.h"
#include "base/status.h"

namespace horing::bench {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
constexpr int kThreads = 2;
constexpr int kWarmUps = 2;
constexpr int kCopies = 9;
constexpr int kTrips = 2'000;
constexpr int kSpins = 10'000;
constexpr int kBatches = 9;
constexpr size_t kPage = 4096;
constexpr size_t kCacheLine = 64;

void copyPastCaches(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__SSE2__)
  auto* out = reinterpret_cast<__m128i*>(to);
  const auto* in = reinterpret_cast<const __m128i*>(from);
  for (size_t i = 0; i < bytes / sizeof(__m128i); i += 4) {
    const __m128i a = _mm_load_si128(in + i), b = _mm_load_si128(in + i + 1);
    const __m128i c = _mm_load_si128(in + i + 2), d = _mm_load_si128(in + i + 3);
    _mm_stream_si128(out + i, a);
    _mm_stream_si128(out + i + 1, b);
    _mm_stream_si128(out + i + 2, c);
    _mm_stream_si128(out + i + 3, d);
  }
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

struct Copier {
  Memory to{static_cast<std::byte*>(std::aligned_alloc(kPage, kBytes)), std::free};
  Memory from{static_cast<std::byte*>(std::aligned_alloc(kPage, kBytes)), std::free};
};

Result<double> copyBytesPerSecond() {
  std::vector<Copier> copiers(kThreads);
  for (const Copier& copier : copiers) {
    if (!copier.to || !copier.from)
      return makeStatus(Code::kSystemError, "no memory for %d buffers of %zu bytes", 2 * kThreads, kBytes);
    std::memset(copier.to.get(), 1, kBytes);
    std::memset(copier.from.get(), 2, kBytes);
  }
  // Threads that have just begun copy at two thirds of the rate of running ones, so the first copies do not count.
  std::barrier together(kThreads);
  std::vector<double> rates;
  const auto copy = [&](const Copier& copier, bool measures) {
    const SteadyClock clock;
    for (int turn = 0; turn < kWarmUps + kCopies; ++turn) {
      together.arrive_and_wait();
      const int64_t start_ns = clock.nowNs();
      copyPastCaches(copier.to.get(), copier.from.get(), kBytes);
      together.arrive_and_wait();
      const double seconds = static_cast<double>(clock.nowNs() - start_ns) * 1e-9;
      if (measures && turn >= kWarmUps) rates.push_back(2.0 * kThreads * kBytes / seconds);
    }
  };
  std::vector<std::thread> threads;
  for (const Copier& copier : copiers) threads.emplace_back(copy, std::cref(copier), &copier == &copiers[0]);
  for (std::thread& thread : threads) thread.join();
  std::ranges::nth_element(rates, rates.begin() + kCopies / 2);
  return rates[kCopies / 2];
}

// With a core for each thread it never comes to yielding; without, a word would wait for a time slice.
void awaitValue(const std::atomic<int>& word, int value) {
  // acquire: pairs with the release of the other thread's store
  for (int spins = 0; word.load(std::memory_order_acquire) != value; ++spins)
    if (spins >= kSpins) std::this_thread::yield();
}

// Each is written by one thread and read by the other.
struct Word {
  alignas(kCacheLine) std::atomic<int> value{0};
};

double roundTripNs() {
  Word there;
  Word back;
  std::thread echo([&] {
    for (int i = 1; i <= kBatches * kTrips; ++i) {
      awaitValue(there.value, i);
      back.value.store(i, std::memory_order_release);
    }
  });
  const SteadyClock clock;
  double best = 1e18;
  for (int batch = 0, i = 1; batch < kBatches; ++batch) {
    const int64_t start_ns = clock.nowNs();
    for (const int end = i + kTrips; i < end; ++i) {
      there.value.store(i, std::memory_order_release);
      awaitValue(back.value, i);
    }
    best = std::min(best, static_cast<double>(clock.nowNs() - start_ns) / kTrips);
  }
  echo.join();
  return best;
}

int benchMain() {
  const Result<double> copied = copyBytesPerSecond();
  if (!copied.ok()) {
    std::fprintf(stderr, "memory_limits_bench: %s\n", copied.status().message().c_str());
    return 3;
  }
  std::printf("{\"copy_bytes_per_s\": %.4g, \"round_trip_ns\": %.1f}\n", copied.value(), roundTripNs());
  return 0;
}

}  // namespace
}  // namespace horing::bench

int main() {
  return horing::bench::benchMain();
}
