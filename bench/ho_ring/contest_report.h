#pragma once
// The outcome of a contest as lines of JSON, one object each, for bench/main_job.py and other readers.
#include <string>
#include <vector>

#include "ho_ring/contest.h"

namespace horing::bench {

// "job": shape and settings. "raw": the raw stream. "time": one collective by one algorithm at one size.
// "comparison": the two algorithms beside the theory. Bounds and ratios are left out where there is no link or no rate.
std::string contestJsonLines(const std::vector<SizeResult>& results, const JobShape& shape,
                             const ContestOptions& options);

}  // namespace horing::bench
