#include "comm/tuning/rate_watch.h"

#include <algorithm>
#include <bit>

namespace horing {

namespace {
// Where groups differ, the ranks measure at least so seldom, as a part of kMostMeasuring.
constexpr double kUnasked = 4;
// Of anything that moves bytes; other figures are no times.
constexpr double kFastestNsPerByte = 1e-6, kSlowestNsPerByte = 1e6;
}  // namespace

bool RateWatch::ended(size_t bytes, int64_t took_ns) {
  SizeClass& one = classes_[static_cast<size_t>(std::bit_width(bytes))];
  const double ns_per_byte = static_cast<double>(took_ns) / static_cast<double>(std::max<size_t>(bytes, 1));
  one.fastest = one.bytes == 0 ? ns_per_byte : std::min(one.fastest, ns_per_byte);
  one.bytes += bytes;
  bytes_ += bytes;
  return static_cast<double>(bytes_) >= next_bytes_;
}

size_t RateWatch::most() const {
  const auto found =
      std::max_element(classes_.begin(), classes_.end(),
                       [](const SizeClass& one, const SizeClass& other) { return one.bytes < other.bytes; });
  return static_cast<size_t>(found - classes_.begin());
}

bool RateWatch::look(double ns_per_byte) {
  // Not clamp(), whose result for no number would be none.
  const double ns = std::min(std::max(kFastestNsPerByte, ns_per_byte), kSlowestNsPerByte);
  SizeClass& one = classes_[most()];
  since_ns_ += static_cast<double>(bytes_) * ns;
  next_bytes_ = kBetweenLooksNs / ns;
  bytes_ = 0;
  for (SizeClass& each : classes_) each.bytes = 0;
  one.latest = ns;
  bool is_odd = false;
  if (one.looks < kFirstLooks)
    one.expected = one.looks++ == 0 ? ns : std::min(one.expected, ns);
  else
    is_odd = ns > one.expected * kChanged || ns * kChanged < one.expected;
  odd_looks_ = is_odd ? odd_looks_ + 1 : 0;
  const double rest_ns = measuring_ns_ / kMostMeasuring;
  if (unequal_ && since_ns_ >= kUnasked * rest_ns) return true;
  return odd_looks_ >= kOddLooks && since_ns_ >= rest_ns * (1 << unchanged_);
}

void RateWatch::measured(double took_ns, bool changed, bool unequal) {
  const bool found_nothing = !changed && odd_looks_ >= kOddLooks;
  measuring_ns_ = took_ns;
  unequal_ = unequal;
  since_ns_ = 0;
  odd_looks_ = 0;
  unchanged_ = found_nothing ? unchanged_ + 1 : 0;
  if (changed || unchanged_ == kUnchangedMeasurements) {
    for (SizeClass& each : classes_) each = {};
    unchanged_ = 0;
  } else if (found_nothing) {
    // The first looks were slow ones. Slower calls may still mean other rates, if these changed during the measurement.
    for (SizeClass& each : classes_) each.expected = std::min(each.expected, each.latest);
  }
}

}  // namespace horing
