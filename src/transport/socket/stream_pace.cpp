#include "transport/socket/stream_pace.h"

#include <algorithm>

namespace horing::tcp {

namespace {
// A sample is long enough that one message more or less, and one late acknowledgement, do not matter; that of a very slow stream ends
// earlier.
constexpr double kSampleNs = 4e6, kSampleBytes = 1 << 20, kLongestSampleNs = 200e6;
constexpr double kNewSampleShare = 0.5;
// A stream that is idle when it is looked at may be faster than it seemed, and is given a little more.
constexpr double kFasterIfIdle = 0.98;
}  // namespace

void StreamPace::look(uint64_t pending, int64_t now_ns) {
  const auto left = static_cast<double>(pending);
  const auto took_ns = static_cast<double>(now_ns - looked_ns_);
  // Only a stream that had something to move all the time shows how fast it is.
  if (looked_ns_ != 0 && looked_pending_ > 0 && left > 0) {
    take(pending_ - left, took_ns);
  } else if (left == 0) {
    ns_per_byte_ *= kFasterIfIdle;
  }
  pending_ = looked_pending_ = left;
  looked_ns_ = now_ns;
}

void StreamPace::take(double bytes, double ns) {
  busy_bytes_ += std::max(bytes, 0.0);
  busy_ns_ += ns;
  const bool is_long = busy_ns_ >= kLongestSampleNs && busy_bytes_ > 0;
  if (!is_long && (busy_ns_ < kSampleNs || busy_bytes_ < kSampleBytes)) return;
  const double sample = busy_ns_ / busy_bytes_;
  ns_per_byte_ += (ns_per_byte_ > 0 ? kNewSampleShare : 1) * (sample - ns_per_byte_);
  busy_bytes_ = busy_ns_ = 0;
}

double StreamPace::finishesInNs(uint64_t bytes, int64_t now_ns) const {
  const double waits_ns = pending_ * ns_per_byte_ - static_cast<double>(now_ns - looked_ns_);
  return std::max(waits_ns, 0.0) + static_cast<double>(bytes) * ns_per_byte_;
}

}  // namespace horing::tcp
