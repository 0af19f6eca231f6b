#pragma once
// Compares algorithms over the size of the vector, over the number of nodes, and against the paper.
#include <string>
#include <vector>

#include "chart.h"
#include "selection/prediction.h"

namespace horing {

// In place of an algorithm: the library's own choice on the machine (HORING_SELECTION=auto), for each point.
inline constexpr const char* kSelected = "selected";

struct Comparison {
  Question question;  // its algorithm and the swept parameter are ignored
  std::vector<std::string> algorithms;
  enum class Over : uint8_t { kSize, kNodes } over = Over::kSize;
  std::vector<uint64_t> sizes;
  std::vector<int32_t> nodes;
  std::vector<double> rates;  // between nodes, GB/s; empty: the machine's
};

struct ComparisonReport {
  std::string table;
  std::string csv;  // a line of names, then a line for each algorithm and point; times in microseconds
  Chart chart;
};

// Time over the wire bound of each algorithm at each point, and the best; over nodes it is drawn as efficiency, bound / time, with the
// ranges in which the outer ring should reach the wire bound (outer_ring.h) and kSelected leaves it. Algorithms that cannot run at a point
// are omitted there. Errors: an algorithm that is unknown, or cannot run at any point.
Result<ComparisonReport> compare(const Comparison& comparison);

// All-gather of 1 GB on 2 to 16 nodes of 8 GPUs, ring against ho_ring, compared with the paper's measurements (arXiv 2310.06003): 25.2 to
// 39.7 % more bandwidth on 16 to 128 A100, 2400 Gbit/s between the GPUs of a node and 100 Gbit/s between nodes; and an explanation of the
// difference.
Result<ComparisonReport> compareWithPaper(const Pipelining& pipelining);

}  // namespace horing
