#pragma once
// What links that several nodes share, and pauses, do to the figures of pairs: probabilities, in logarithms.
#include <algorithm>
#include <cmath>

namespace horing::check::link_model {

// The probability that a pair is slow in a pause, or across a link while it is busy.
constexpr double kSlowThen = 0.9;
// Of what crosses a busy link that is anywhere else, and the density of that.
constexpr double kElsewhere = 0.1, kAnywhere = 0.5;
// The logarithm of how much more probable a link has to be before it is blamed.
constexpr double kSure = 7;

inline double logSum(double a, double b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// Of how many groups a link's nodes are one: of any size, and of this.
inline double logOfChoices(int nodes, int size) {
  return std::lgamma(nodes + 1) - std::lgamma(size + 1) - std::lgamma(nodes - size + 1) + std::log(nodes);
}

// A normal distribution.
struct Spread {
  double middle, deviation, peak;

  Spread(double center, double spread)
      : middle(center), deviation(spread), peak(-std::log(spread * std::sqrt(2 * M_PI))) {}
  double logOf(double value) const {
    const double off = (value - middle) / deviation;
    return peak - off * off / 2;
  }
  // But for what is elsewhere.
  double logOfMost(double value) const {
    return std::log((1 - kElsewhere) * std::exp(logOf(value)) + kElsewhere * kAnywhere);
  }
};

}  // namespace horing::check::link_model
