#pragma once
// When the ranks of a running job measure the rates of their groups again: when large all-reduces have become faster or slower. Rates may
// also change without an effect on their time, while a group is spared that has become fast again; so where groups differ, the ranks measure
// now and then.
#include <array>
#include <cstddef>
#include <cstdint>

namespace horing {

// Without a clock and I/O. Each rank tells its own times to ended() and the same to everything else, so all ranks decide the same. All times
// are in nanoseconds. One thread at a time.
class RateWatch {
 public:
  // The part of the time in calls that measurements may take, one after the other.
  static constexpr double kMostMeasuring = 0.05;
  // Of the time in calls between two looks, unless one call takes longer.
  static constexpr double kBetweenLooksNs = 100e6;
  // A call's time has changed if it differs by this factor in so many consecutive looks.
  static constexpr double kChanged = 1.15;
  static constexpr int kOddLooks = 2;
  // As many looks tell how long calls take by the present plan.
  static constexpr int kFirstLooks = 3;
  // After so many measurements in turn that found the rates unchanged, slower calls are expected, too.
  static constexpr int kUnchangedMeasurements = 3;

  // After a measurement that took so long; `unequal`: it found that groups differ.
  RateWatch(double measuring_ns, bool unequal) : measuring_ns_(measuring_ns), unequal_(unequal) {}

  // A large all-reduce has ended. Whether the ranks look now: they exchange their nsPerByte(), and call look().
  bool ended(size_t bytes, int64_t took_ns);
  // Of this rank's fastest call since the last look, among calls of the size class that has moved the most bytes. A rank that comes late to
  // a call, for which the others wait, spends the least time in it.
  double nsPerByte() const { return classes_[most()].fastest; }
  // `ns_per_byte`: the least of all ranks. Whether the ranks measure now, and call measured().
  bool look(double ns_per_byte);
  // `took_ns`: the longest of all ranks. `changed`: rates differ from those that the plan follows; `unequal`: groups differ.
  void measured(double took_ns, bool changed, bool unequal);

 private:
  // Calls whose sizes have the same number of binary digits.
  struct SizeClass {
    uint64_t bytes = 0;  // since the last look
    // In ns per byte. Of this rank since the last look; of all ranks at the last look of this class; by the present plan.
    double fastest = 0, latest = 0, expected = 0;
    int looks = 0;
  };
  size_t most() const;

  std::array<SizeClass, 65> classes_;
  uint64_t bytes_ = 0;     // since the last look
  double next_bytes_ = 0;  // the next look comes after so many
  double since_ns_ = 0;    // in calls since the last measurement
  double measuring_ns_;
  bool unequal_;
  int odd_looks_ = 0;
  int unchanged_ = 0;  // measurements in turn that slower or faster calls led to, without effect
};

}  // namespace horing
