#pragma once
// Which pieces of the text a step learns from.
#include <cstdint>
#include <string_view>

namespace horing::paro {

// A number that depends on its arguments in no visible way; the same on every machine.
uint64_t hash(uint64_t seed, uint64_t a, uint64_t b);

// One token to predict: the byte after `context`.
struct Example {
  std::string_view context;
  unsigned char next = 0;
};

// The batch of an optimizer step is a list of examples that depends on the seed and the step alone, not on who computes which: so any
// number of ranks and micro-steps learns from the same.
class Batches {
 public:
  // `text` has to be longer than `context` and outlive this.
  Batches(std::string_view text, int context, uint64_t seed) : text_(text), context_(context), seed_(seed) {}
  Example example(int step, int64_t index) const;

 private:
  std::string_view text_;
  int context_;
  uint64_t seed_;
};

}  // namespace horing::paro
