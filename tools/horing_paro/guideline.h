#pragma once
// The paper's guideline: which strategy for which model, on its machine (arXiv 2310.06003; 4 nodes of 8 GPUs with 80 GB, 80 Gbit/s
// between nodes and 2000 Gbit/s inside for each, 10 micro-steps).
#include <array>
#include <span>
#include <string>

#include "horing_paro/plan.h"

namespace horing::paro {

inline constexpr Grid kPaperGrid{4, 8};
inline constexpr double kPaperMemoryBytes = 80e9;

struct GuidelineCase {
  const char* title;
  Job job;
  std::array<const char*, 3> recommended;  // by the paper; null beyond the last
};

std::span<const GuidelineCase> guidelineCases();

// A table of times, a column per case. Errors: none but those of planStrategies().
Result<std::string> guidelineText(const CostTable& costs, const std::string& costs_name);

}  // namespace horing::paro
