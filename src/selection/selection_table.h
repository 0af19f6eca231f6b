#pragma once
// Which algorithm serves which collective, shape and size: a table as text, which a person or a measurement writes.
//
//   # collective   groups  ranks of each  ranks per core  up to bytes  algorithm
//   all_reduce     1       2-4            *               4K           one_shot
//   all_reduce     1       5-16           >1              64K          star
//   *              2-      *              *               *            ho_ring
//
// The first row that fits a call and can serve it is taken. Numbers are "3", "2-4", "2-" (two or more) or "*" (any); ranks per
// core are "<=1" (a core for each rank), ">1" (ranks share cores, and a message waits for a turn of its receiver) or "*"; bytes are
// those of the whole vector, with K, M or G for powers of 1024; "#" begins a comment.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"
#include "base/status.h"

namespace horing {

// Values of HORING_SELECTION that are no files.
inline constexpr const char* kSelectionAuto = "auto";
inline constexpr const char* kSelectionByTable = "table";
inline constexpr const char* kSelectionByModel = "model";

inline constexpr size_t kMaxSelectionRows = 1024;
inline constexpr size_t kMaxSelectionBytes = 1 << 16;

enum class RanksPerCore : uint8_t { kAny, kAtMostOne, kMore };

// What rows ask of a job.
struct JobShape {
  int32_t groups = 1;
  int32_t members = 1;                                     // of the largest group
  RanksPerCore ranks_per_core = RanksPerCore::kAtMostOne;  // not kAny
};

struct SelectionRow {
  struct Range {
    int32_t least = 1;
    int32_t most = INT32_MAX;
    bool contains(int32_t value) const { return value >= least && value <= most; }
    bool operator==(const Range&) const = default;
  };
  bool every_collective = false;
  Collective collective = Collective::kAllReduce;  // unless every_collective
  Range groups;
  Range members;  // of the largest group
  RanksPerCore ranks_per_core = RanksPerCore::kAny;
  size_t most_bytes = SIZE_MAX;
  const Algorithm* algorithm = nullptr;

  bool fits(Collective called, const JobShape& job) const {
    return (every_collective || collective == called) && groups.contains(job.groups) &&
           members.contains(job.members) &&
           (ranks_per_core == RanksPerCore::kAny || ranks_per_core == job.ranks_per_core);
  }
  bool operator==(const SelectionRow&) const = default;
};

// "*", "<=1" or ">1".
const char* ranksPerCoreText(RanksPerCore ranks_per_core);

// A value.
class SelectionTable {
 public:
  // What is compiled in.
  static const SelectionTable& builtIn();
  // Errors name `source`, the line, and what was expected: a word or number that is none, an algorithm that is unknown or does not
  // have the collective, more than kMaxSelectionRows rows.
  static Result<SelectionTable> parse(std::string_view text, std::string_view source);
  // Errors as in parse(); a file that cannot be read or is longer than kMaxSelectionBytes.
  static Result<SelectionTable> read(const std::string& path);
  // What HORING_SELECTION says: a file, or what is compiled in, which is also what predicted rows are put before.
  static Result<SelectionTable> fromSetting(const std::string& selection);

  // One row, for all that the algorithm has.
  static SelectionTable only(const Algorithm& algorithm);

  // What the first row that fits and can serve it says; null: none does.
  const Algorithm* find(Collective collective, const JobShape& job, size_t bytes) const;

  std::span<const SelectionRow> rows() const { return rows_; }
  // As parse() takes it.
  std::string text() const;
  // Equal tables have equal digests.
  uint64_t digest() const;
  bool operator==(const SelectionTable&) const = default;

 private:
  std::vector<SelectionRow> rows_;
};

}  // namespace horing
