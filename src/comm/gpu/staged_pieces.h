#pragma once
// Splits a command on GPU memory into pieces for the host: each piece is copied into host memory, run there, and copied back, except
// in-place transfers, which have a copier. Pure: no GPU calls.
//
// Vectors and blocks are cut, the same way on every rank, so that host memory is bounded and copies and network overlap: a piece has the
// same elements of every block. For gather, scatter and all-to-all with unequal blocks no rank knows how many pieces the others would need,
// and messages progress independently: these are a single piece. Data that does not fit in it stays in place, to be copied by the copier of
// StagedPlace.
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

// The host's part. It also copies from and to the caller's pinned memory, since a driver's host-to-host copy blocks.
struct HostPart {
  std::vector<StagedCopy> in;   // before the command
  Command command;              // on host memory
  std::vector<StagedCopy> out;  // after the host
};

struct StagedPiece {
  std::vector<StagedCopy> in;  // before the host
  HostPart host;
  std::vector<StagedCopy> out;  // after the host
  size_t staged_bytes = 0;      // of host memory
};

// The rank, and how its data reaches the host.
struct StagedPlace {
  int rank = 0;
  int ranks = 1;
  MemoryCopier* copier = nullptr;  // accesses GPU memory; null: commands of a single piece are staged whole
};

// The pieces of one command. A value that borrows the command.
class StagedPieces {
 public:
  // The largest piece, without alignment, unless one element of each block needs more.
  static constexpr size_t kPieceBytes = 8 << 20;

  StagedPieces(const Command& command, StagedPlace place);

  size_t count() const { return cuts_.size(); }
  // The size of the largest piece: piece() needs this much memory at `staging`.
  size_t largestBytes() const { return largest_bytes_; }
  // Whether some data stays in place and has a copier. There is one piece then.
  bool hasCopier() const { return has_copier_; }
  StagedPiece piece(size_t number, std::byte* staging) const { return build(cuts_[number], staging); }

 private:
  // Elements [from, from + count) of every block of entries [first, last) of the list, or of the call; entries are cut one by one.
  struct Cut {
    size_t first = 0;
    size_t last = 0;
    size_t from = 0;
    size_t count = 0;
    bool stays = false;  // the whole call stays in place
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
