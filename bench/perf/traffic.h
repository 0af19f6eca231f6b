#pragma once
// The sizes of each pair of ranks in an all-to-all of different blocks.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::perf {

// A value: either a matrix of bytes from a file, or shares of a total that grow with the distance from sender to receiver.
// Every block is a multiple of 16 bytes.
class Traffic {
 public:
  static constexpr int kMaxRanks = 4096;

  // `spread` 1: rank r sends nothing to itself, one part to rank r + 1, two to rank r + 2, ...; 0: as much to each; between:
  // in proportion.
  explicit Traffic(double spread = 1) : spread_(spread) {}
  // The file has as many lines as columns, numbers parted by blanks: line i, column j is what rank i sends to rank j, in
  // bytes, times `scale`. Errors: kInvalidUsage, with the name of the file.
  static Result<Traffic> fromFile(const std::string& name, double scale);

  bool fromFile() const { return matrix_ranks_ > 0; }
  // Of a file.
  int matrixRanks() const { return matrix_ranks_; }
  // What rank `from` sends to rank `to`, of `total` bytes for all ranks; a file's bytes do not depend on the total.
  uint64_t bytes(int from, int to, int ranks, uint64_t total) const;

 private:
  double spread_ = 1;
  int matrix_ranks_ = 0;
  std::vector<uint64_t> matrix_;
};

}  // namespace horing::perf
