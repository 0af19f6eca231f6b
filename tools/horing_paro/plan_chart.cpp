#include "horing_paro/plan_chart.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "common/svg.h"
#include "horing_paro/plan_report.h"

namespace horing::paro {

namespace {

constexpr double kWidth = 860, kHeight = 618;
constexpr Box kPlot{78, 116, 752, 412};
constexpr double kLetter = 7.5;  // width of a letter of a label

constexpr const char* kStyle = R"(
.beyond{fill:#c43d2f;fill-opacity:0.07}
.limit{stroke:#c43d2f;stroke-width:1.6;stroke-dasharray:6 4}
.limit-text{fill:#c43d2f;font-weight:600}
.front{stroke:#2f6fc4;stroke-width:1.2;stroke-opacity:0.55}
.leader{stroke:#9aa4b1;stroke-width:0.8}
.fits{fill:#2f6fc4}
.large{fill:#ffffff;stroke:#9aa4b1;stroke-width:1.6}
.chosen{fill:#23824a}
.halo{fill:none;stroke:#23824a;stroke-width:2}
.chosen-text{fill:#23824a;font-weight:700}
.large-text{fill:#7b8694}
.fits-text,.large-text,.chosen-text{paint-order:stroke;stroke:#ffffff;stroke-width:5px;stroke-linejoin:round}
@media (prefers-color-scheme:dark){.fits{fill:#6ea8f0}.large{fill:#14181d}.chosen{fill:#4fbf7d}.halo{stroke:#4fbf7d}.chosen-text{fill:#4fbf7d}.front{stroke:#6ea8f0}
.fits-text,.large-text,.chosen-text{stroke:#14181d}
.limit{stroke:#f0796c}.limit-text{fill:#f0796c}.large-text{fill:#8a95a3}}
)";

// A logarithmic axis from `low` to `high`, both above 0.
struct Axis {
  double low = 1, high = 10;
  double from = 0, to = 1;  // places on the page

  double place(double value) const {
    const double clamped = std::clamp(value, low, high);
    return from + (to - from) * std::log(clamped / low) / std::log(high / low);
  }

  // 1, 2 and 5 times powers of ten; powers of ten alone where that would be too many.
  std::vector<double> ticks() const {
    const bool wide = high / low > 1e4;
    std::vector<double> values;
    for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
      for (double digit : {1, 2, 5})
        if ((digit == 1 || !wide) && decade * digit >= low && decade * digit <= high)
          values.push_back(decade * digit);
    return values;
  }
};

// An axis with some room around the values; values that are not above 0 lie at its beginning.
Axis axisOver(const std::vector<double>& values, double from, double to) {
  double low = INFINITY, high = 0;
  for (double value : values)
    if (value > 0) low = std::min(low, value), high = std::max(high, value);
  if (high == 0) low = 0.1, high = 1;
  return {low / 1.5, high * 1.5, from, to};
}

// "0.5 GB", "20 GB": a tick has one figure.
std::string tickText(const std::string& quantity) {
  std::string number = quantity.substr(0, quantity.find(' '));
  const std::string unit = quantity.substr(quantity.find(' '));
  if (number.find('.') != std::string::npos)
    while (number.back() == '0' || number.back() == '.') {
      const bool point = number.back() == '.';
      number.pop_back();
      if (point) break;
    }
  return number + unit;
}

class Chart {
 public:
  Chart(const Question& question, const Plan& plan) : question_(question), plan_(plan) {
    std::vector<double> memory = {plan.memory_bytes}, time;
    for (const Forecast& forecast : plan.forecasts) {
      memory.push_back(forecast.memory());
      time.push_back(forecast.communication_seconds);
    }
    x_ = axisOver(memory, kPlot.x, kPlot.x + kPlot.width);
    y_ = axisOver(time, kPlot.y + kPlot.height, kPlot.y);
  }

  std::string draw() {
    drawHead();
    drawLegend();
    drawLimit();
    drawAxes();
    drawFront();
    drawSpots();
    return svg_.finish(kWidth, kHeight, "PaRO strategies: memory against time", kStyle);
  }

 private:
  void drawHead() {
    svg_.text(kPlot.x, 24, "title", titleText());
    svg_.text(kPlot.x, 42, "note", jobText(question_));
    svg_.text(kPlot.x, 58, "note", "Costs: " + question_.costs_text);
  }

  std::string titleText() const {
    if (plan_.chosen < 0) return "No strategy fits";
    const auto chosen = static_cast<size_t>(plan_.chosen);
    const Forecast& forecast = plan_.forecasts[chosen];
    return "Take " + label(chosen) + ": " + secondsText(forecast.communication_seconds) +
           " of communication, " + bytesText(forecast.memory()) + " per rank";
  }

  void drawLegend() {
    constexpr double kBase = 82;
    const struct {
      double x;
      const char *kind, *text;
    } marks[] = {{kPlot.x + 5, "chosen", "take"},
                 {kPlot.x + 65, "fits", "fits"},
                 {kPlot.x + 120, "large", "too large"}};
    for (const auto& mark : marks) {
      svg_.circle(mark.x, kBase - 4, kSpotRadius - 1, mark.kind);
      svg_.text(mark.x + 10, kBase, "note", mark.text);
    }
    svg_.line(kPlot.x + 205, kBase - 4, kPlot.x + 229, kBase - 4, "front");
    svg_.text(kPlot.x + 235, kBase, "note",
              "the least time for this much memory: strategies above it are never the best");
  }

  // The steps down from the strategy that needs least memory to the one that takes least time.
  void drawFront() {
    std::vector<const Forecast*> sorted;
    for (const Forecast& forecast : plan_.forecasts) sorted.push_back(&forecast);
    std::sort(sorted.begin(), sorted.end(), [](const Forecast* a, const Forecast* b) {
      return std::tuple(a->memory(), a->communication_seconds) <
             std::tuple(b->memory(), b->communication_seconds);
    });
    double x = x_.place(sorted[0]->memory()), y = y_.place(sorted[0]->communication_seconds);
    for (const Forecast* forecast : sorted) {
      const double next_x = x_.place(forecast->memory()), next_y = y_.place(forecast->communication_seconds);
      if (next_y <= y) continue;  // pages count from the top
      svg_.line(x, y, next_x, y, "front");
      svg_.line(next_x, y, next_x, next_y, "front");
      x = next_x, y = next_y;
    }
  }

  void drawLimit() {
    const double limit = x_.place(plan_.memory_bytes);
    svg_.rect(limit, kPlot.y, kPlot.x + kPlot.width - limit, kPlot.height, "beyond");
    svg_.line(limit, kPlot.y - 6, limit, kPlot.y + kPlot.height, "limit");
    const bool at_right = limit > kPlot.x + kPlot.width / 2;
    svg_.text(limit + (at_right ? -6 : 6), kPlot.y - 4, "limit-text",
              "limit: " + bytesText(plan_.memory_bytes) + " per rank",
              at_right ? Anchor::kEnd : Anchor::kStart);
  }

  void drawAxes() {
    const double bottom = kPlot.y + kPlot.height, right = kPlot.x + kPlot.width;
    for (double value : x_.ticks()) {
      svg_.line(x_.place(value), kPlot.y, x_.place(value), bottom, "grid");
      svg_.text(x_.place(value), bottom + 18, "tick", tickText(bytesText(value)), Anchor::kMiddle);
    }
    for (double value : y_.ticks()) {
      svg_.line(kPlot.x, y_.place(value), right, y_.place(value), "grid");
      svg_.text(kPlot.x - 8, y_.place(value) + 4, "tick", tickText(secondsText(value)), Anchor::kEnd);
    }
    svg_.line(kPlot.x, bottom, right, bottom, "axis");
    svg_.line(kPlot.x, kPlot.y, kPlot.x, bottom, "axis");
    svg_.text(right, bottom + 40, "note", "memory of model state per rank", Anchor::kEnd);
    svg_.text(kPlot.x, bottom + 40, "note",
              "up: time of communication in an optimizer step; less of both is better");
    svg_.text(kPlot.x, bottom + 60, "note",
              "Letters: parameters, gradients, optimizer state. N whole on every rank, I split inside each "
              "node, G split "
              "over all ranks.");
  }

  std::string label(size_t index) const {
    const horingParoStrategy_t strategy = plan_.forecasts[index].strategy;
    const std::string familiar = familiarName(strategy);
    return strategyName(strategy) + (familiar.empty() ? "" : " " + familiar);
  }

  const char* kind(size_t index) const {
    if (static_cast<int>(index) == plan_.chosen) return "chosen";
    return plan_.forecasts[index].fits ? "fits" : "large";
  }

  void drawSpots() {
    std::vector<Spot> spots;
    for (size_t i = 0; i < plan_.forecasts.size(); ++i)
      spots.push_back({x_.place(plan_.forecasts[i].memory()),
                       y_.place(plan_.forecasts[i].communication_seconds),
                       kLetter * static_cast<double>(label(i).size()) + 4});
    const std::vector<Box> boxes = placeLabels(spots, kPlot);
    for (size_t i = 0; i < spots.size(); ++i) drawLeader(spots[i], boxes[i]);
    for (size_t i = 0; i < spots.size(); ++i) drawSpot(i, spots[i], boxes[i]);
  }

  // A line to a label that had to move away.
  void drawLeader(const Spot& spot, const Box& box) {
    const double x = std::clamp(spot.x, box.x, box.x + box.width),
                 y = std::clamp(spot.y, box.y, box.y + box.height);
    // Not std::hypot: its symbol needs glibc 2.35, and all else 2.34.
    const double squared = (x - spot.x) * (x - spot.x) + (y - spot.y) * (y - spot.y);
    if (squared > 9 * kSpotRadius * kSpotRadius) svg_.line(spot.x, spot.y, x, y, "leader");
  }

  void drawSpot(size_t index, const Spot& spot, const Box& box) {
    const Forecast& forecast = plan_.forecasts[index];
    svg_.beginGroup(label(index) + ": " + bytesText(forecast.memory()) + ", " +
                    secondsText(forecast.communication_seconds) + (forecast.fits ? "" : ", does not fit"));
    svg_.circle(spot.x, spot.y, kSpotRadius - 1, kind(index));
    if (static_cast<int>(index) == plan_.chosen) svg_.circle(spot.x, spot.y, kSpotRadius + 3, "halo");
    const bool at_left = box.x + box.width <= spot.x;
    svg_.text(box.x + (at_left ? box.width - 2 : 2), box.y + kLabelHeight - 4,
              std::string(kind(index)) + "-text", label(index), at_left ? Anchor::kEnd : Anchor::kStart);
    svg_.endGroup();
  }

  const Question& question_;
  const Plan& plan_;
  Axis x_, y_;
  SvgWriter svg_;
};

Box around(const Spot& spot) {
  const double side = 2 * (kSpotRadius + 3);
  return {spot.x - side / 2, spot.y - side / 2, side, side};
}

// A label's box with its nearest edge `distance` away from the spot in a direction.
Box boxAt(const Spot& spot, double angle, double distance) {
  const double dx = std::cos(angle), dy = std::sin(angle);
  const double x = spot.x + dx * (distance + spot.label_width / 2) - spot.label_width / 2;
  const double y = spot.y + dy * (distance + kLabelHeight / 2) - kLabelHeight / 2;
  return {x, y, spot.label_width, kLabelHeight};
}

bool isInside(const Box& box, const Box& area) {
  return box.x >= area.x && box.y >= area.y && box.x + box.width <= area.x + area.width &&
         box.y + box.height <= area.y + area.height;
}

}  // namespace

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

std::vector<Box> placeLabels(const std::vector<Spot>& spots, const Box& area) {
  std::vector<Box> taken;
  for (const Spot& spot : spots) taken.push_back(around(spot));
  std::vector<Box> labels;
  const auto place = [&](const Spot& spot) {
    for (double distance = kSpotRadius + 6; distance < area.width; distance += 8)
      for (int turn = 0; turn < 16; ++turn) {
        const Box box = boxAt(spot, turn * std::acos(-1) / 8, distance);
        if (isInside(box, area) &&
            std::none_of(taken.begin(), taken.end(), [&](const Box& other) { return overlap(box, other); }))
          return box;
      }
    return boxAt(spot, 0, kSpotRadius + 6);  // no room at all
  };
  for (const Spot& spot : spots) {
    labels.push_back(place(spot));
    taken.push_back(labels.back());
  }
  return labels;
}

std::string planChart(const Question& question, const Plan& plan) {
  return Chart(question, plan).draw();
}

}  // namespace horing::paro
