#include "chart.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "common/svg.h"

namespace horing {

namespace {

constexpr double kLeft = 84, kTop = 92, kWidth = 600, kHeight = 340, kRight = 216, kBottom = 64;
constexpr double kLetter = 6.8;  // of a label

constexpr const char* kStyle = R"(
.band{fill:#7b8694;fill-opacity:0.16}
.c{stroke-width:2;stroke-linecap:round;fill:none}
.dash{stroke-dasharray:6 5}
.wide{stroke-width:8;stroke-opacity:0.3}
.span{stroke:#7b8694;stroke-width:3}
.mark{stroke:#7b8694;stroke-width:1.5}
.c0{stroke:#c26a12}.c1{stroke:#2f6fc4}.c2{stroke:#23824a}.c3{stroke:#8a4fb8}
.c4{stroke:#c43d2f}.c5{stroke:#0f8b8d}.c6{stroke:#6b7280}.c7{stroke:#a08500}
.d{stroke:none}
.d0{fill:#c26a12}.d1{fill:#2f6fc4}.d2{fill:#23824a}.d3{fill:#8a4fb8}
.d4{fill:#c43d2f}.d5{fill:#0f8b8d}.d6{fill:#6b7280}.d7{fill:#a08500}
@media (prefers-color-scheme:dark){.c0{stroke:#eda055}.c1{stroke:#6ea6ef}.c2{stroke:#5fc687}.c3{stroke:#c39be6}.c4{stroke:#f0796c}.c5{stroke:#52c9cb}.c6{stroke:#a4afbd}.c7{stroke:#d9bf45}
.d0{fill:#eda055}.d1{fill:#6ea6ef}.d2{fill:#5fc687}.d3{fill:#c39be6}.d4{fill:#f0796c}.d5{fill:#52c9cb}.d6{fill:#a4afbd}.d7{fill:#d9bf45}}
)";

class Axis {
 public:
  Axis(double least, double most, bool is_logarithmic)
      : is_logarithmic_(is_logarithmic), least_(value(least)), most_(value(most)) {
    if (most_ <= least_) most_ = least_ + 1;
  }
  // 0 at the axis' beginning, 1 at its end.
  double place(double at) const { return (value(at) - least_) / (most_ - least_); }

 private:
  double value(double at) const { return is_logarithmic_ ? std::log2(std::max(at, 1e-12)) : at; }
  bool is_logarithmic_;
  double least_, most_;
};

// Never with an exponent: 100,000.
std::string shortNumber(double value) {
  if (std::abs(value) < 10000) return formatString("%.4g", value);
  std::string text = formatString("%.0f", value);
  for (size_t at = text.size(); at > 3 && text[at - 4] != '-';) text.insert(at -= 3, ",");
  return text;
}

std::vector<double> logarithmicTicks(double least, double most) {
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(least))); decade <= most; decade *= 10)
    for (const double factor : {1.0, 2.0, 5.0})
      if (decade * factor >= least * 0.999 && decade * factor <= most * 1.001)
        ticks.push_back(decade * factor);
  while (ticks.size() > 9) {  // decades only, then every second one
    std::vector<double> fewer;
    for (size_t i = 0; i < ticks.size(); i += 3) fewer.push_back(ticks[i]);
    ticks = fewer;
  }
  return ticks;
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_(chart),
        xs_(valuesOf(true)),
        y_ends_(yEnds()),
        x_(xs_.front(), xs_.back(), true),
        y_(y_ends_.first, y_ends_.second, chart.y_is_logarithmic) {}

  std::string draw() {
    svg_.text(kLeft, 26, "title", chart_.title);
    for (size_t i = 0; i < chart_.notes.size(); ++i)
      svg_.text(kLeft, 46 + 16 * static_cast<double>(i), "note", chart_.notes[i]);
    drawBand();
    drawGrid();
    drawSpans();
    for (const bool is_wide : {true, false})
      for (size_t c = 0; c < chart_.curves.size(); ++c)
        if (chart_.curves[c].is_wide == is_wide) drawCurve(c);
    for (const Curve& curve : chart_.curves) drawLabels(curve);
    drawNames();
    return svg_.finish(kLeft + kWidth + kRight, kTop + kHeight + kBottom, chart_.title, kStyle);
  }

 private:
  std::vector<double> valuesOf(bool of_x) const {
    std::vector<double> values;
    for (const Curve& curve : chart_.curves)
      for (const auto& [x, y] : curve.points) values.push_back(of_x ? x : y);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.empty()) values = {1, 2};
    return values;
  }

  std::pair<double, double> yEnds() const {
    const std::vector<double> values = valuesOf(false);
    if (chart_.y_is_logarithmic) return {values.front() / 1.15, values.back() * 1.15};
    const double most = std::max(values.back(), chart_.band_most);
    return {chart_.y_least,
            chart_.y_most > 0 ? chart_.y_most : chart_.y_least + (most - chart_.y_least) * 1.08};
  }

  double px(double x) const { return kLeft + kWidth * x_.place(x); }
  double py(double y) const { return kTop + kHeight * (1 - y_.place(y)); }

  void drawBand() {
    if (chart_.band_most <= chart_.band_least) return;
    const double top = py(chart_.band_most);
    svg_.rect(kLeft, top, kWidth, py(chart_.band_least) - top, "band");
    svg_.text(kLeft + kWidth - 8, top + 15, "note", chart_.band_name, Anchor::kEnd);
  }

  void drawGrid() {
    const std::vector<double> ticks = chart_.y_is_logarithmic
                                          ? logarithmicTicks(y_ends_.first, y_ends_.second)
                                          : linearTicks(y_ends_.first, y_ends_.second);
    for (const double y : ticks) {
      svg_.line(kLeft, py(y), kLeft + kWidth, py(y), "grid");
      svg_.text(kLeft - 8, py(y) + 4, "tick", shortNumber(y), Anchor::kEnd);
    }
    double last = -1000;
    for (const double x : xs_) {
      svg_.line(px(x), kTop, px(x), kTop + kHeight, "grid");
      if (px(x) - last < 46) continue;
      last = px(x);
      svg_.text(px(x), kTop + kHeight + 18, "tick", chart_.x_text(x), Anchor::kMiddle);
    }
    svg_.line(kLeft, kTop + kHeight, kLeft + kWidth, kTop + kHeight, "axis");
    svg_.line(kLeft, kTop, kLeft, kTop + kHeight, "axis");
    svg_.text(kLeft + kWidth / 2, kTop + kHeight + 42, "note", chart_.x_name, Anchor::kMiddle);
    svg_.text(kLeft, kTop - 10, "note", chart_.y_name);
  }

  struct Box {
    double left, top, right, bottom;
    bool meets(const Box& other) const {
      return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
  };

  // Of a line of text, with room for the curves' marks.
  static Box boxOf(double left, double line, const std::string& text) {
    return {left, line - 11, left + kLetter * static_cast<double>(text.size()), line + 4};
  }

  // Whether a line between two points passes through the box; this many samples suffice for boxes of letters.
  static bool crosses(const Box& box, double x1, double y1, double x2, double y2) {
    constexpr int kSamples = 64;
    for (int i = 0; i <= kSamples; ++i) {
      const double part = i / static_cast<double>(kSamples);
      const double x = x1 + (x2 - x1) * part, y = y1 + (y2 - y1) * part;
      if (x > box.left && x < box.right && y > box.top && y < box.bottom) return true;
    }
    return false;
  }

  bool isFree(const Box& box) const {
    if (box.left < kLeft + 2 || box.right > kLeft + kWidth || box.top < kTop || box.bottom > kTop + kHeight)
      return false;
    for (const Box& label : labels_)
      if (label.meets(box)) return false;
    for (const Curve& curve : chart_.curves)
      for (size_t i = 1; i < curve.points.size(); ++i)
        if (crosses(box, px(curve.points[i - 1].first), py(curve.points[i - 1].second),
                    px(curve.points[i].first), py(curve.points[i].second)))
          return false;
    return true;
  }

  // The line nearest above this one on which the text is free.
  double nameAbove(double left, double line, const std::string& text) {
    for (double up = 0; up < kHeight / 2; up += 4) {
      const Box box = boxOf(left, line - up, text);
      if (!isFree(box)) continue;
      labels_.push_back(box);
      return line - up;
    }
    return line;
  }

  // One above the other, so that their names do not meet; lines are named at the right of bars.
  void drawSpans() {
    double bar = kTop + kHeight - 12, name = kTop + kHeight - 8;
    for (const Span& span : chart_.spans) {
      const double from = px(span.from), to = px(span.to);
      const std::string dash = span.is_dashed ? " dash" : "";
      if (span.from == span.to) {
        svg_.line(from, kTop, from, kTop + kHeight, "mark" + dash);
        const bool is_far = from > kLeft + kWidth / 2;
        svg_.text(is_far ? from - 6 : from + 6, name, "note", span.name,
                  is_far ? Anchor::kEnd : Anchor::kStart);
        name -= 18;
      } else {
        svg_.line(from, bar, to, bar, "span" + dash);
        for (const double end : {from, to}) svg_.line(end, bar - 5, end, bar + 5, "span");
        svg_.text(from + 4, nameAbove(from + 4, bar - 8, span.name), "note", span.name);
        bar -= 32;
      }
    }
  }

  void drawCurve(size_t number) {
    const Curve& curve = chart_.curves[number];
    const size_t look = curve.colour % kMaxColours;
    const std::string line =
        formatString("c c%zu%s%s", look, curve.is_dashed ? " dash" : "", curve.is_wide ? " wide" : "");
    for (size_t i = 1; i < curve.points.size(); ++i)
      svg_.line(px(curve.points[i - 1].first), py(curve.points[i - 1].second), px(curve.points[i].first),
                py(curve.points[i].second), line);
    for (const auto& [x, y] : curve.points) {
      if (std::find(curve.circled.begin(), curve.circled.end(), x) != curve.circled.end())
        svg_.circle(px(x), py(y), 7, formatString("c c%zu", look));
      svg_.beginGroup(curve.name + ": " + chart_.x_text(x) + ", " + shortNumber(y));
      svg_.rect(px(x) - 3, py(y) - 3, 6, 6, formatString("d d%zu", look));
      svg_.endGroup();
    }
  }

  // Nearest to its point where no curve and no other label is; left out if there is no room near it, since the table has it.
  void drawLabel(double x, double y, const std::string& label) {
    constexpr double kStep = 2, kFarthest = 44;
    const double width = kLetter * static_cast<double>(label.size());
    for (double far = 8; far <= kFarthest; far += kStep)
      for (const double left : {x - width / 2, x + 8, x - width - 8})
        for (const double line : {y + far + 10, y - far}) {
          const Box box = boxOf(left, line, label);
          if (!isFree(box)) continue;
          labels_.push_back(box);
          return svg_.text(left, line, "note", label);
        }
  }

  void drawLabels(const Curve& curve) {
    for (const auto& [x, label] : curve.labels)
      for (const auto& [at, y] : curve.points)
        if (at == x) drawLabel(px(x), py(y), label);
  }

  // At the right ends of the curves, moved apart where they would lie on each other.
  void drawNames() {
    std::vector<std::pair<double, size_t>> places;
    for (size_t c = 0; c < chart_.curves.size(); ++c)
      if (!chart_.curves[c].points.empty()) places.push_back({py(chart_.curves[c].points.back().second), c});
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i)
      places[i].first = std::max(places[i].first, places[i - 1].first + 18);
    const double beyond = places.empty() ? 0 : std::max(0.0, places.back().first - (kTop + kHeight));
    for (size_t i = 0; i < places.size(); ++i) {
      const double y = places[i].first - beyond;
      svg_.rect(kLeft + kWidth + 14, y - 5, 10, 10,
                formatString("d d%zu", chart_.curves[places[i].second].colour % kMaxColours));
      svg_.text(kLeft + kWidth + 30, y + 4, "name", chart_.curves[places[i].second].name);
    }
  }

  const Chart& chart_;
  std::vector<double> xs_;
  std::pair<double, double> y_ends_;
  Axis x_, y_;
  std::vector<Box> labels_;
  SvgWriter svg_;
};

}  // namespace

std::vector<double> linearTicks(double least, double most) {
  const double raw = (most - least) / 6, decade = std::pow(10, std::floor(std::log10(raw)));
  double step = decade * 10;
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (decade * factor >= raw) {
      step = decade * factor;
      break;
    }
  std::vector<double> ticks;
  for (double at = std::ceil(least / step - 1e-9) * step; at <= most + step * 1e-9; at += step)
    ticks.push_back(std::abs(at) < step * 1e-6 ? 0 : at);
  return ticks;
}

std::string drawChart(const Chart& chart) {
  return Drawing(chart).draw();
}

}  // namespace horing
