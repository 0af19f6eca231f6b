#include "transport/socket/stream_pace.h"

#include <algorithm>

namespace horing::tcp {

namespace {
// A sample is long enough that one message more or less, one late acknowledgement, and the kernel's clock of 4 ms do not matter; that of a
// very slow stream ends earlier.
constexpr uint64_t kSampleNs = 20'000'000, kSampleBytes = 1 << 20, kLongestSampleNs = 200'000'000;
constexpr double kNewSampleShare = 0.5;
// A stream that was given nothing for so long may have become faster, and is taken for twice as fast.
constexpr int64_t kForgetsAfterNs = 1'000'000'000;
}  // namespace

void StreamPace::look(uint64_t queued, const Counts& counts, int64_t now_ns) {
  const uint64_t pending = queued + counts.waiting;
  if (looked_ns_ == 0) sampled_ = counts;
  const uint64_t bytes = counts.acknowledged - sampled_.acknowledged;
  const uint64_t busy_ns = counts.busy_ns - sampled_.busy_ns;
  const bool is_long = busy_ns >= kLongestSampleNs && bytes > 0;
  if (is_long || (busy_ns >= kSampleNs && bytes >= kSampleBytes)) {
    const double sample = static_cast<double>(busy_ns) / static_cast<double>(bytes);
    ns_per_byte_ += (ns_per_byte_ > 0 ? kNewSampleShare : 1) * (sample - ns_per_byte_);
    sampled_ = counts;
  }
  if (pending > 0 || pending_ > 0 || looked_ns_ == 0) moved_ns_ = now_ns;
  if (now_ns - moved_ns_ >= kForgetsAfterNs) {
    ns_per_byte_ /= 2;
    moved_ns_ = now_ns;
  }
  pending_ = static_cast<double>(pending);
  looked_ns_ = now_ns;
}

double StreamPace::finishesInNs(uint64_t bytes, int64_t now_ns) const {
  const double waits_ns = pending_ * ns_per_byte_ - static_cast<double>(now_ns - looked_ns_);
  return std::max(waits_ns, 0.0) + static_cast<double>(bytes) * ns_per_byte_;
}

}  // namespace horing::tcp
