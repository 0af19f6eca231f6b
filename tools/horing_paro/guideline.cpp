#include "horing_paro/guideline.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace horing::paro {

namespace {

Job paperJob(uint64_t parameters, uint64_t trainable) {
  return {
      {sizeof(horingParoModel_t), kPaperGrid.groups, kPaperGrid.members, parameters, trainable, 10, 2, 12},
      0};
}

constexpr uint64_t kBillion = 1'000'000'000;

const GuidelineCase kCases[] = {
    {"7B, all trained", paperJob(7 * kBillion, 7 * kBillion), {"NII", "IIG", "III"}},
    {"65B, all trained", paperJob(65 * kBillion, 65 * kBillion), {"IIG", nullptr, nullptr}},
    {"7B, 1/16 trained", paperJob(7 * kBillion, 7 * kBillion / 16), {"NIG", "NII", nullptr}},
    {"65B, 1/16 trained", paperJob(65 * kBillion, 65 * kBillion / 16), {"IIG", "III", nullptr}},
    {"65B, 1/1000 trained", paperJob(65 * kBillion, 65 * kBillion / 1000), {"ING", nullptr, nullptr}},
};

bool isRecommended(const GuidelineCase& one, const std::string& name) {
  return std::any_of(one.recommended.begin(), one.recommended.end(),
                     [&](const char* recommended) { return recommended && name == recommended; });
}

// "1.73 s *", "-" when it does not fit.
std::string cell(const GuidelineCase& one, const Forecast& forecast) {
  if (!forecast.fits) return "-";
  return secondsText(forecast.communication_seconds) +
         (isRecommended(one, strategyName(forecast.strategy)) ? " *" : "  ");
}

constexpr const char* kNotes = R"(
Seconds of communication in one optimizer step; -  does not fit 80 GB; *  the paper recommends it.
The paper's guideline begins where parameters or gradients are split: NNN, NNI and NNG are not in it. INI was not built by its
authors. 4 nodes of 8, 80 Gbit/s between nodes and 2000 Gbit/s inside for each rank, 10 micro-steps, mixed precision, Adam.
)";

}  // namespace

std::span<const GuidelineCase> guidelineCases() {
  return kCases;
}

Result<std::string> guidelineText(const CostTable& costs, const std::string& costs_name) {
  std::string text = formatString("%-18s", ("costs: " + costs_name).c_str());
  std::vector<Plan> plans;
  for (const GuidelineCase& one : kCases) {
    HORING_ASSIGN(Plan plan, planStrategies(one.job, costs, kPaperMemoryBytes));
    plans.push_back(std::move(plan));
    text += formatString("%21s", one.title);
  }
  text += "\n";
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    const auto strategy = static_cast<horingParoStrategy_t>(number);
    text += formatString("%-4s%-14s", strategyName(strategy).c_str(), familiarName(strategy).c_str());
    for (size_t column = 0; column < plans.size(); ++column)
      text += formatString(
          "%21s", cell(kCases[column], plans[column].forecasts[static_cast<size_t>(number)]).c_str());
    text += "\n";
  }
  return text + kNotes;
}

}  // namespace horing::paro
