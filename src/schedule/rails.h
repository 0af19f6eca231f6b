#pragma once
// Groups of different sizes. Each group's part of the vector is cut at k/m for the size m of every group, so that no piece overlaps the
// shares of two members of any group. Piece p of all groups is rail p: in each group one rank owns it.
//
//   groups of 4 and 3: pieces from 0, 1/4, 1/3, 1/2, 2/3, 3/4
//                      owned by ranks 0 1 1 2 2 3 of the one, 0 0 1 1 2 2 of the other
//
// So a rank carries exactly 1/m of its group's traffic. Chunk = group * pieces + piece.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace horing {

// A value, cheap to copy; empty if all groups have one size.
class Rails {
 public:
  // Pieces [begin, end) of a group's part.
  struct Range {
    int32_t begin = 0;
    int32_t end = 0;
  };
  // Elements [begin, end) of a block.
  struct Part {
    size_t begin = 0;
    size_t end = 0;
  };

  Rails() = default;
  // By group; all at least 1.
  explicit Rails(std::vector<int32_t> group_sizes);

  explicit operator bool() const { return cut_ != nullptr; }
  std::span<const int32_t> sizes() const { return cut_ ? cut_->sizes : std::span<const int32_t>(); }
  int32_t ranks() const { return cut_->first.back(); }
  int32_t groups() const { return static_cast<int32_t>(cut_->sizes.size()); }
  int32_t pieces() const { return static_cast<int32_t>(cut_->at.size()) - 1; }
  int32_t sizeOf(int32_t group) const { return cut_->sizes[static_cast<size_t>(group)]; }
  // Position of its member 0.
  int32_t firstOf(int32_t group) const { return cut_->first[static_cast<size_t>(group)]; }
  int32_t groupOf(int32_t position) const;
  int32_t bearer(int32_t group, int32_t piece) const {
    return firstOf(group) + memberAt(sizeOf(group), piece);
  }
  Range piecesOf(int32_t group, int32_t member) const;
  // The most pieces that two ranks of different groups both own. These pieces are consecutive: at most one of them has a given number
  // modulo turns().
  int32_t turns() const { return cut_->turns; }

  // ownerOf(): the position whose block contains the chunk, if each position has a block. The part of the block: begin and end are
  // multiples of `alignment`, or the block's end.
  int32_t ownerOf(int32_t chunk) const { return bearer(chunk / pieces(), chunk % pieces()); }
  Part partOfBlock(int32_t chunk, size_t block, size_t alignment) const;
  // The part of its row, if the vector is cut into rows of equal size.
  Part partOfRow(int32_t chunk, size_t row, size_t alignment) const;
  // The elements of the largest part.
  size_t largestPartOfBlock(size_t block, size_t alignment) const;
  size_t largestPartOfRow(size_t row, size_t alignment) const;

  bool operator==(const Rails& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const Rails& other) const;

 private:
  // numerator / denominator of a group's part.
  struct Fraction {
    int64_t numerator = 0;
    int64_t denominator = 1;
    bool operator==(const Fraction& other) const {
      return numerator * other.denominator == other.numerator * denominator;
    }
    bool operator<(const Fraction& other) const {
      return numerator * other.denominator < other.numerator * denominator;
    }
  };
  struct Cut {
    std::vector<int32_t> sizes;  // of groups
    std::vector<int32_t> first;  // positions; one more entry: the number of ranks
    std::vector<Fraction> at;    // begins of pieces; one more entry: 1
    double widest = 1;           // the largest piece, as a share of a group's part
    int32_t largest = 1;         // the largest group
    int32_t turns = 1;
  };

  const Fraction& begin(int32_t piece) const { return cut_->at[static_cast<size_t>(piece)]; }
  int32_t memberAt(int32_t size, int32_t piece) const {
    return static_cast<int32_t>(begin(piece).numerator * size / begin(piece).denominator);
  }
  static int32_t turnsOf(const Cut& cut);

  std::shared_ptr<const Cut> cut_;
};

}  // namespace horing
