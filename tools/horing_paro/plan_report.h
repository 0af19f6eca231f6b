#pragma once
// A plan as text for users, and as JSON.
#include <string>

#include "horing_paro/question.h"

namespace horing::paro {

// The job in a line: "7B parameters, all of them trained; 4 nodes of 8 ranks; ...".
std::string jobText(const Question& question);

// A row per strategy, then the choice and its reasons.
std::string planText(const Question& question, const Plan& plan);

// {"question": {...}, "strategies": [{"name", "familiar_name", "memory_bytes", "traffic_bytes": {...}, "communication_seconds",
// "step_seconds", "fits"}, ...], "chosen": "NII" or null, "why": [...]}
std::string planJson(const Question& question, const Plan& plan);

}  // namespace horing::paro
