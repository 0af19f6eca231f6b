#pragma once
// Which algorithm serves what, and why: `horing-info selection`.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::info {

// The table in effect, in a form that HORING_SELECTION takes; as comments, where its rows come from, and what the model predicts.
Result<std::string> selectionInEffect();

struct AskedJob {
  std::vector<int32_t> ranks;  // of each node
  bool shares_cores = false;   // more ranks than cores
};
// "2x4": nodes x ranks of each; "4,3": ranks of each of several nodes. None: another text, or more than can be predicted.
std::optional<AskedJob> parseJob(const std::string& text);

// For each collective and size of such a job: the algorithm, the source of the choice, and the next best with both predicted times. The
// rows are from the table that is kept for such jobs, if there is one. Errors: a variable with a wrong value, a table or machine that
// cannot be read.
Result<std::string> selectionExplained(const AskedJob& job);

}  // namespace horing::info
