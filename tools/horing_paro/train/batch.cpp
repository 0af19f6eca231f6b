#include "horing_paro/train/batch.h"

namespace horing::paro {

namespace {

// SplitMix64's finalizer (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t hash(uint64_t seed, uint64_t a, uint64_t b) {
  return mix(mix(mix(seed) ^ a) ^ b);
}

Example Batches::example(int step, int64_t index) const {
  const auto length = static_cast<size_t>(context_);
  const uint64_t start =
      hash(seed_, static_cast<uint64_t>(step), static_cast<uint64_t>(index)) % (text_.size() - length);
  return {text_.substr(start, length), static_cast<unsigned char>(text_[start + length])};
}

}  // namespace horing::paro
