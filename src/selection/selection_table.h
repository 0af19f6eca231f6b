#pragma once
// Which algorithm serves which collective, shape and size: a table as text, which a person or a measurement writes.
//
//   # collective   groups  ranks of each  ranks per core  up to bytes  algorithm
//   all_reduce     1       2-4            *               4K           one_shot
//   all_reduce     1       5-16           >1              64K          star
//   *              2-      *              *               *            ho_ring
//
// The first row that fits a call and can serve it is taken. Numbers are "3", "2-4", "2-" (two or more) or "*" (any); ranks per core are
// "<=1" (a core for each rank), ">1" (ranks share cores, and a message waits until its receiver is scheduled) or "*"; bytes are bytes of
// the whole vector, with K, M or G for powers of 1024; "#" begins a comment.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"
#include "base/status.h"

namespace horing {

// Values of HORING_SELECTION that are not files.
inline constexpr const char* kSelectionAuto = "auto";
inline constexpr const char* kSelectionByTable = "table";
inline constexpr const char* kSelectionByModel = "model";

inline constexpr size_t kMaxSelectionRows = 1024;
inline constexpr size_t kMaxSelectionBytes = 1 << 16;

enum class RanksPerCore : uint8_t { kAny, kAtMostOne, kMore };

// The properties of a job that rows match.
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
  // The built-in table.
  static const SelectionTable& builtIn();
  // Errors name `source`, the line, and what was expected: an invalid word or number, an algorithm that is unknown or does not support the
  // collective, more than kMaxSelectionRows rows.
  static Result<SelectionTable> parse(std::string_view text, std::string_view source);
  // Errors: as for parse(); a file that cannot be read or is longer than kMaxSelectionBytes.
  static Result<SelectionTable> read(const std::string& path);
  // The table of HORING_SELECTION: a file, or the built-in table, to which predicted rows are prepended.
  static Result<SelectionTable> fromSetting(const std::string& selection);

  // One row, for all collectives of the algorithm.
  static SelectionTable only(const Algorithm& algorithm);

  // The algorithm of the first row that matches and can serve the call; null: none.
  const Algorithm* find(Collective collective, const JobShape& job, size_t bytes) const;

  std::span<const SelectionRow> rows() const { return rows_; }
  // In the format of parse().
  std::string text() const;
  // Equal tables have equal digests.
  uint64_t digest() const;
  bool operator==(const SelectionTable&) const = default;

 private:
  std::vector<SelectionRow> rows_;
};

}  // namespace horing
