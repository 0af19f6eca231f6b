#pragma once
// The rate of something that is done in pieces.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace horing::check {

// The fewest pieces, and the part of them that are slower than the figure: most run without another process in between.
inline constexpr int kLeastPieces = 8;
inline constexpr double kSlowerPieces = 0.75;

// Bytes per second. Does piece(0), piece(1), ... of so many bytes for this time.
template <typename Piece>
double rateOfPieces(size_t bytes, double seconds, const Piece& piece) {
  using PieceClock = std::chrono::steady_clock;
  std::vector<double> rates;
  const PieceClock::time_point start = PieceClock::now();
  PieceClock::time_point begin = start;
  while (std::ssize(rates) < kLeastPieces || std::chrono::duration<double>(begin - start).count() < seconds) {
    piece(rates.size());
    const PieceClock::time_point end = PieceClock::now();
    const double took_s = std::chrono::duration<double>(end - begin).count();
    rates.push_back(static_cast<double>(bytes) / std::max(took_s, 1e-9));
    begin = end;
  }
  const auto chosen =
      rates.begin() + static_cast<ptrdiff_t>(kSlowerPieces * static_cast<double>(rates.size() - 1));
  std::nth_element(rates.begin(), chosen, rates.end());
  return *chosen;
}

}  // namespace horing::check
