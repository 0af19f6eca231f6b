#pragma once
// A record of a few words in a ring: one thread writes, any thread reads.
//
// A write is a few stores, without a lock, and never waits for a reader; a reader that meets a write in progress retries.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace horing {

template <size_t kWords>
class alignas(64) RecordEntry {
 public:
  using Words = std::array<uint64_t, kWords>;

  // Replaces the words from `kFirst` on.
  template <size_t kFirst = 0, size_t kMany>
  void write(const std::array<uint64_t, kMany>& words) {
    static_assert(kFirst + kMany <= kWords);
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    // release at every word: a reader that sees a new word also sees that the version is odd, or newer.
    for (size_t i = 0; i < kMany; ++i) words_[kFirst + i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }
  // For the thread that writes.
  uint64_t own(size_t word) const { return words_[word].load(std::memory_order_relaxed); }

  // Nothing: the writer was stopped in the middle of a write.
  std::optional<Words> read() const {
    // A write takes nanoseconds: a few retries find a complete record.
    for (int look = 0; look < 1000; ++look) {
      // acquire: pairs with the releases in write().
      const uint64_t version = version_.load(std::memory_order_acquire);
      Words words;
      for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) return words;
    }
    return std::nullopt;
  }

 private:
  std::atomic<uint64_t> version_{0};  // odd while words are written
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace horing
