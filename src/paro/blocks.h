#pragma once
// The blocks of a vector: which elements each rank keeps. A value.
//
// Sharded inside groups, member j of m keeps the part from j/m to (j+1)/m. Sharded over all ranks, a rank keeps a part of that, so nothing
// is ever reordered: in turn, the rank whose block inside its group ends first takes the next n-th of the vector, or as much of it as its
// block has left. In groups of one size that is rail-major order, and everybody gets an n-th; in others some get more, some less:
//
//   groups of 2 and 1     | rank 0      | rank 1      |     sharded over all ranks:    | 0       | 2       | 1       |
//                         | rank 2                    |
#include <cstddef>
#include <cstdint>
#include <vector>

#include "horing/paro.h"

namespace horing::paro {

// Elements of a vector.
struct Range {
  size_t first = 0;
  size_t count = 0;

  size_t end() const { return first + count; }
};
// Empty if they do not overlap.
Range overlapOf(const Range& one, const Range& other);

// A vector as it is cut: each block begins at a multiple of `unit`, and `count` is a multiple of that for every rank.
struct Padded {
  size_t count = 0;  // elements
  size_t unit = 1;
};

// What the cost of a rank depends on.
struct Shares {
  int groups = 1;
  int members = 1;         // of the rank's group
  int fewest_members = 1;  // of any group
  // A vector that is sharded over all ranks, over what the rank keeps: infinite if that is nothing.
  double all = 1;
  double group = 1;       // what its group keeps of such a vector
  double next_group = 1;  // ... the group after it

  // A vector, over what the rank keeps.
  double divisor(horingParoPartition_t partition) const {
    return partition == horingParoWhole ? 1 : partition == horingParoByGroup ? members : all;
  }
  static Shares even(int groups, int members);
};

class Blocks {
 public:
  struct Place {
    int group = 0;
    int local = 0;
  };
  Blocks() = default;
  // `places`: by rank, at most 65535. `nested`: blocks among all ranks lie inside those among the ranks of groups. If groups differ in size
  // and it is false, they are in the order of ranks, and equal.
  Blocks(std::vector<Place> places, bool nested);

  int ranks() const { return static_cast<int>(places_.size()); }
  int groups() const { return static_cast<int>(members_.size()); }
  // All groups have one size.
  bool even() const { return even_; }
  // All blocks of the partition have one size.
  bool equal(horingParoPartition_t partition) const {
    return even_ || (partition == horingParoByAll && !nested_);
  }
  const Place& place(int rank) const { return places_[static_cast<size_t>(rank)]; }
  // The ranks of a group, by local index.
  const std::vector<int>& members(int group) const { return members_[static_cast<size_t>(group)]; }

  // `count` elements of so many bytes, rounded up so that blocks begin at multiples of 16 bytes, in wider types, too: what reads them in
  // vectors needs no first steps.
  Padded padded(size_t count, size_t element_bytes) const;
  // The block of a rank.
  Range of(horingParoPartition_t partition, int rank, const Padded& vector) const;
  Shares shares(int rank) const;

 private:
  // Of the vector.
  struct Fraction {
    uint64_t numerator = 0;
    uint64_t denominator = 1;
    bool operator<(const Fraction& other) const {
      return numerator * other.denominator < other.numerator * denominator;
    }
    bool operator<=(const Fraction& other) const { return !(other < *this); }
    double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  };
  struct Part {
    Fraction begin, end;
  };
  Part partOf(const Place& place) const;
  Fraction after(const Fraction& at) const;
  void nest();
  // What each group keeps of a vector that is sharded over all ranks.
  std::vector<double> groupShares() const;

  std::vector<Place> places_;
  std::vector<std::vector<int>> members_;
  std::vector<Part> all_;             // by rank: sharded over all ranks
  std::vector<double> group_shares_;  // unless groups have one size
  int fewest_members_ = 1;
  bool even_ = true;
  bool nested_ = true;
};

}  // namespace horing::paro
