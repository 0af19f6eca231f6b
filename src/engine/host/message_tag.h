#pragma once
// The contents of a message's tag (transport/transport.h).
#include <cstdint>

namespace horing {

// The 64-bit finaliser of SplitMix64: every input bit changes about half of the output bits.
constexpr uint64_t mixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// What both ends of a pair know about a message between them: its number and its size, so that a receiver can name the difference.
inline constexpr uint64_t kSizeMask = (uint64_t{1} << 40) - 1;
constexpr uint64_t messageTag(uint64_t number, uint64_t bytes) {
  return number << 40 | (bytes & kSizeMask);
}
// In place of the size: the header of a message with a tag; of a put.
inline constexpr uint64_t kHeaderMark = kSizeMask, kPutMark = kSizeMask - 1;

}  // namespace horing
