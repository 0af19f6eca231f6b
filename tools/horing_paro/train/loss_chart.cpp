#include "horing_paro/train/loss_chart.h"

#include <algorithm>
#include <cmath>

#include "common/svg.h"

namespace horing::paro {

namespace {

constexpr double kLeft = 60, kTop = 50, kRight = 740, kBottom = 340, kWidth = 760, kHeight = 390;
constexpr size_t kMaxPoints = 1000;

constexpr const char* kStyle = R"(
.curve{stroke:#2f6fc4;stroke-width:2;stroke-linecap:round}
@media (prefers-color-scheme:dark){.curve{stroke:#6ea8f0}}
)";

// About five ticks of 1, 2 or 5 times a power of ten.
double tickDistance(double range) {
  const double decade = std::pow(10, std::floor(std::log10(range / 5)));
  for (double digit : {1, 2, 5})
    if (range / (decade * digit) <= 6) return decade * digit;
  return decade * 10;
}

}  // namespace

std::string lossChart(const std::vector<TrainingStep>& steps, const std::string& title) {
  double low = steps[0].loss, high = steps[0].loss;
  for (const TrainingStep& step : steps) low = std::min(low, step.loss), high = std::max(high, step.loss);
  low -= 0.05 * (high - low) + 0.01;
  high += 0.05 * (high - low) + 0.01;
  const double first = steps.front().number,
               last = std::max(first + 1.0, static_cast<double>(steps.back().number));
  const auto x = [&](double number) { return kLeft + (number - first) / (last - first) * (kRight - kLeft); };
  const auto y = [&](double loss) { return kBottom - (loss - low) / (high - low) * (kBottom - kTop); };
  SvgWriter svg;
  svg.text(kLeft, 26, "title", title);
  for (double tick = tickDistance(high - low), loss = std::ceil(low / tick) * tick; loss <= high;
       loss += tick) {
    svg.line(kLeft, y(loss), kRight, y(loss), "grid");
    svg.text(kLeft - 8, y(loss) + 4, "tick", formatString("%.4g", loss), Anchor::kEnd);
  }
  for (double tick = std::max(1.0, tickDistance(last - first)), at = std::ceil(first / tick) * tick;
       at <= last; at += tick)
    svg.text(x(at), kBottom + 18, "tick", formatString("%.0f", at), Anchor::kMiddle);
  svg.line(kLeft, kBottom, kRight, kBottom, "axis");
  svg.text(kLeft, kBottom + 38, "tick", "up: loss in nats per byte");
  svg.text(kRight, kBottom + 38, "tick", "optimizer step", Anchor::kEnd);
  const size_t stride = (steps.size() + kMaxPoints - 1) / kMaxPoints;
  for (size_t i = stride; i < steps.size(); i += stride)
    svg.line(x(steps[i - stride].number), y(steps[i - stride].loss), x(steps[i].number), y(steps[i].loss),
             "curve");
  return svg.finish(kWidth, kHeight, title, kStyle);
}

}  // namespace horing::paro
