#pragma once
// Which algorithm serves which collective, shape and size: a table as text, which a person or a measurement writes.
//
//   # collective   groups  ranks of each  up to bytes  algorithm
//   all_reduce     1       2-4            4K           one_shot
//   *              2-      *              *            ho_ring
//
// The first row that fits a call and can serve it is taken. Numbers are "3", "2-4", "2-" (two or more) or "*" (any), bytes are
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
  size_t most_bytes = SIZE_MAX;
  const Algorithm* algorithm = nullptr;

  bool fits(Collective called, int32_t group_count, int32_t largest_group) const {
    return (every_collective || collective == called) && groups.contains(group_count) &&
           members.contains(largest_group);
  }
  bool operator==(const SelectionRow&) const = default;
};

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

  // What the first row that fits and can serve it says; null: none does. Of the largest group, as SelectionRow::fits().
  const Algorithm* find(Collective collective, int32_t groups, int32_t members, size_t bytes) const;

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
