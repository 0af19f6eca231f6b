#include "algorithms/pattern.h"

#include <bit>
#include <cstdlib>

namespace horing {

namespace {

bool isPowerOfTwo(int32_t n) {
  return std::has_single_bit(static_cast<uint32_t>(n));
}

std::vector<Move> ringMoves(int32_t n) {
  std::vector<Move> moves = {{-1, {}, 1}};
  if (n > 2) moves.push_back({-2, {-1}, 1, n - 2});
  moves.push_back({0, {-1}});
  return moves;
}

std::vector<Move> directMoves(int32_t n) {
  std::vector<Move> moves;
  Move own;
  for (int32_t distance = 1; distance < n; ++distance) {
    moves.push_back({-distance, {}, -distance});
    own.from.push_back(distance);
  }
  moves.push_back(own);
  return moves;
}

// From the leaves, at odd distances, to the root, ordered so that each message is received before the next one arrives on the same
// connection.
std::vector<Move> halvingMoves(int32_t n) {
  std::vector<Move> moves;
  for (int32_t d = n - 1; d >= 0; --d) {
    const int32_t lowest = d & -d;
    Move move{-d, {}, -lowest};
    for (int32_t child = 1; (d == 0 || child < lowest) && d + child < n; child *= 2)
      move.from.push_back(child);
    moves.push_back(move);
  }
  return moves;
}

}  // namespace

std::vector<Move> reduceMoves(Pattern pattern, int32_t size) {
  switch (pattern) {
    case Pattern::kRing:
      return ringMoves(size);
    case Pattern::kDirect:
    case Pattern::kOrdered:
      return directMoves(size);
    case Pattern::kHalving:
      return halvingMoves(size);
    case Pattern::kDoubling:
      break;
  }
  return {};
}

Line::Line(Pattern pattern, int32_t size, int32_t stride, int32_t position)
    : pairs_(pattern == Pattern::kHalving && isPowerOfTwo(size)),
      is_ordered_(pattern == Pattern::kOrdered),
      size_(size),
      stride_(stride),
      position_(position),
      me_(position / stride % size) {}

int32_t Line::offset(int32_t distance) const {
  const int32_t other = pairs_ ? me_ ^ std::abs(distance) : ((me_ + distance) % size_ + size_) % size_;
  return (other - me_) * stride_;
}

}  // namespace horing
