#pragma once
// A command on a GPU's memory as pieces that the host can carry out: each is copied into memory of the host, done there, and
// copied back, but for transfers in place, which have a copier. Pure: no GPU is asked.
//
// Vectors and blocks are cut, the same way on every rank, so that memory of the host stays bounded and copies and network overlap: a
// piece is the same elements of every block, where it has them. Of gather, scatter and all-to-all with blocks that differ in size no rank
// knows how many pieces the others would need, and messages go on one without the others: these are one piece. What has no room in it
// is left where it is, to be copied by what the place names.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/calls/command.h"

namespace horing {

struct StagedCopy {
  CudaAddress to = 0;
  CudaAddress from = 0;
  size_t bytes = 0;
};

// What the host does: copies what is in the caller's pinned memory, too, since a driver copies from host to host before it returns.
struct HostPart {
  std::vector<StagedCopy> in;   // before
  Command command;              // on memory of the host
  std::vector<StagedCopy> out;  // after
};

struct StagedPiece {
  std::vector<StagedCopy> in;  // before
  HostPart host;
  std::vector<StagedCopy> out;  // after
  size_t staged_bytes = 0;      // of the host's memory
};

// Where a rank stands among the others.
struct StagedPlace {
  int rank = 0;
  int ranks = 1;
  MemoryCopier* copier = nullptr;  // reaches the GPU's memory; null: all that is one piece is staged
};

// The pieces of one command. A value that borrows the command.
class StagedPieces {
 public:
  // The most that a piece takes of the host's memory, but for its alignment, where an element of each block fits.
  static constexpr size_t kPieceBytes = 8 << 20;

  StagedPieces(const Command& command, StagedPlace place);

  size_t count() const { return cuts_.size(); }
  // The most that any of them takes, so much must be at `staging` in piece().
  size_t largestBytes() const { return largest_bytes_; }
  // Whether something stays where it is and has a copier. Then there is one piece.
  bool hasCopier() const { return has_copier_; }
  StagedPiece piece(size_t number, std::byte* staging) const { return build(cuts_[number], staging); }

 private:
  // Elements [from, from + count) of every block of entries [first, last) of the list, or of the call; entries are cut one by one.
  struct Cut {
    size_t first = 0;
    size_t last = 0;
    size_t from = 0;
    size_t count = 0;
    bool stays = false;  // all of the call, where it is
  };
  class Builder;

  void cutList();
  void cutEvenly(Cut whole);
  void cutUnevenly(const size_t* counts);
  StagedPiece build(const Cut& cut, std::byte* staging) const;

  const Command& command_;
  const StagedPlace place_;
  std::vector<Cut> cuts_;
  size_t largest_bytes_ = 0;
  bool has_copier_ = false;
};

}  // namespace horing
