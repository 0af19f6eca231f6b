#pragma once
// The patterns in which the members of one line (a group, a rail, all ranks) exchange a row of chunks, one chunk for
// each member.
//
// To reduce a row is one tree for each of its chunks: every member folds what its children sent into its own share and sends the result to
// its parent; the member that the chunk belongs to is the root. To gather a row is the same, mirrored and reversed in time. So a pattern is
// one list of moves, the same for all members, since trees and peers are given by their distance from the member. n members, rows of D
// bytes; all receive D(n-1)/n bytes.
//
//   ring (Patarasuk and Yuan, 2009): the tree of chunk c is the path c+1, c+2, ..., c. n-1 hops, 2 peers.
//   direct: the tree is a star, every member sends its share to the owner. 1 hop, n-1 peers.
//   ordered: direct, but the owner folds the shares in the order of the members' numbers, and rounds its own share to the
//     data type as the sent shares are rounded: the result does not depend on which member owns the chunk.
//   halving (Rabenseifner, 2004; Thakur, Rabenseifner and Gropp, 2005): binomial trees. Member at distance d from the
//     owner sends to the one at d without its lowest set bit. For n a power of two distances are d = me xor c: pairs
//     exchange half of what is left, recursive halving, and backwards recursive doubling. For any other n they are
//     d = me - c modulo n, as in Bruck's dissemination (1997): the same trees, cut off at n, with 2 log2 n peers
//     instead of log2 n, and no member does a round more. log2 n hops for each chunk; the chunks follow each other
//     such that one is under way on a connection at a time, so a row takes about n/2 hops.
#include <cstdint>
#include <vector>

#include "schedule/builder.h"

namespace horing {

enum class Pattern {
  kRing,
  kDirect,
  kOrdered,
  kHalving,
  kDoubling,  // no rows: all-reduces whole chunks (doubling.h). Only at the outermost level, only in all-reduce
};

// A member's action in the tree of one chunk when a row is reduced. All numbers are distances from the member.
struct Move {
  int32_t chunk = 0;          // the owner of the chunk; 0: the member itself, the last move
  std::vector<int32_t> from;  // children, in the order of folding; the member's own share follows
  int32_t to = 0;             // parent; unused for the member's own chunk
  int32_t count = 1;          // repetitions, each for the chunk one further back
};

// The moves of a member of a line of `size` >= 2, in order. None for kDoubling.
std::vector<Move> reduceMoves(Pattern pattern, int32_t size);

// One rank's view of a line: `size` positions, `stride` apart; the rank is number `me`.
class Line {
 public:
  Line(Pattern pattern, int32_t size, int32_t stride, int32_t position);
  int32_t size() const { return size_; }
  int32_t me() const { return me_; }
  bool isOrdered() const { return is_ordered_; }
  int32_t peer(int32_t distance) const { return position_ + offset(distance); }
  // The chunk of the member at that distance, in the row whose own chunk is `own`.
  int32_t chunk(int32_t own, int32_t distance) const { return own + offset(distance); }

 private:
  int32_t offset(int32_t distance) const;

  bool pairs_, is_ordered_;
  int32_t size_, stride_, position_, me_;
};

}  // namespace horing
