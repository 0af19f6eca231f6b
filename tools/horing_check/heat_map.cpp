// All pairs as a picture.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/quantity.h"
#include "common/svg.h"
#include "horing_check/report.h"

namespace horing::check {

namespace {

constexpr double kTop = 96, kLegend = 22, kLetter = 7;
constexpr double kLeastForText = 34, kLeastForNames = 12;

// From the slowest on: below which share of the cluster's rate, and the class of its cells.
struct Shade {
  double below;
  const char* css_class;
  const char* text;
};
constexpr Shade kShades[] = {{0.50, "s0", "below 50 %"},
                             {0.70, "s1", "below 70 %"},
                             {0.85, "s2", "below 85 %"},
                             {0.93, "s3", "below 93 %"},
                             {INFINITY, "s4", "as the others"}};

constexpr const char* kHeatStyle = R"(
.s0{fill:#a31621}.s1{fill:#dd5b3f}.s2{fill:#f0a267}.s3{fill:#f6dca6}.s4{fill:#cfe3d4}.self{fill:#e6e9ee}
.cell{font-size:11px;fill:#1f2733}.light{font-size:11px;fill:#ffffff}
.blamed{font-size:11px;font-weight:700;fill:#a31621}
@media (prefers-color-scheme:dark){.s3{fill:#8d7a4b}.s4{fill:#2c4a37}.self{fill:#2a313a}.cell{fill:#f3f5f8}.blamed{fill:#f0796c}}
)";

const Shade& shadeOf(double share) {
  return *std::find_if(std::begin(kShades), std::end(kShades),
                       [&](const Shade& shade) { return share < shade.below; });
}

class HeatMap {
 public:
  explicit HeatMap(const Report& report) : report_(report), nodes_(static_cast<double>(report.names.size())) {
    cell_ = std::clamp(std::floor(640 / nodes_), 2.0, 48.0);
    size_t longest = 0;
    for (const std::string& name : report.names) longest = std::max(longest, name.size());
    left_ = cell_ < kLeastForNames ? 24 : 16 + kLetter * static_cast<double>(longest);
  }

  std::string draw() {
    const double side = cell_ * nodes_;
    svg_.text(16, 24, "title", title());
    svg_.text(16, 44, "note",
              "Rate from the node of the row to that of the column, as a share of the median, " +
                  bytesText(report_.verdict.bytes_per_s) + "/s");
    drawNames();
    for (int node = 0; node < static_cast<int>(nodes_); ++node)
      svg_.rect(x(node), y(node), cell_ - 1, cell_ - 1, "self");
    drawCells();
    drawLegend(kTop + side + 16);
    return svg_.finish(std::max(left_ + side + 24, 620.0), kTop + side + 52, "Rates between nodes",
                       kHeatStyle);
  }

 private:
  double x(int node) const { return left_ + cell_ * node; }
  double y(int node) const { return kTop + cell_ * node; }

  std::string title() const {
    if (!report_.cut_short.empty()) return "The check ended early";
    const std::vector<int> good = goodNodes(report_);
    if (good.size() == report_.names.size()) return "Nothing is slower than the others";
    std::vector<int> others;
    for (int node = 0; node < static_cast<int>(nodes_); ++node)
      if (!std::binary_search(good.begin(), good.end(), node)) others.push_back(node);
    return "To be looked at: " + hostListOf(report_, others);
  }

  void drawNames() {
    if (cell_ < kLeastForNames) return;
    const std::vector<int> good = goodNodes(report_);
    for (int node = 0; node < static_cast<int>(nodes_); ++node) {
      const char* css_class = std::binary_search(good.begin(), good.end(), node) ? "tick" : "blamed";
      const std::string& name = report_.names[static_cast<size_t>(node)];
      svg_.text(left_ - 6, y(node) + cell_ / 2 + 4, css_class, name, Anchor::kEnd);
      if (kLetter * static_cast<double>(name.size()) < cell_)
        svg_.text(x(node) + cell_ / 2, kTop - 8, css_class, name, Anchor::kMiddle);
    }
  }

  void drawCells() {
    std::map<std::pair<int, int>, std::vector<double>> rates;
    for (const Sample& sample : report_.figures.samples)
      if (sample.bytes_per_s > 0) rates[{sample.from, sample.to}].push_back(sample.bytes_per_s);
    for (auto& [ends, of_path] : rates) {
      std::sort(of_path.begin(), of_path.end());
      const double rate = of_path[of_path.size() / 2];
      const auto [from, to] = ends;
      const double share = rate / (report_.verdict.bytes_per_s * report_.figures.shareOf(from, to));
      const Shade& shade = shadeOf(share);
      if (cell_ >= kLeastForNames)
        svg_.beginGroup(report_.names[static_cast<size_t>(from)] + " to " +
                        report_.names[static_cast<size_t>(to)] + ": " + bytesText(rate) + "/s");
      svg_.rect(x(to), y(from), cell_ - 1, cell_ - 1, shade.css_class);
      if (cell_ >= kLeastForText)
        svg_.text(x(to) + cell_ / 2, y(from) + cell_ / 2 + 4, share < 0.7 ? "light" : "cell",
                  formatString("%.0f", 100 * share), Anchor::kMiddle);
      if (cell_ >= kLeastForNames) svg_.endGroup();
    }
  }

  void drawLegend(double top) {
    double at = 16;
    for (const Shade& shade : kShades) {
      svg_.rect(at, top, 14, 14, shade.css_class);
      svg_.text(at + kLegend, top + 11, "note", shade.text);
      at += 116;
    }
  }

  const Report& report_;
  double nodes_, cell_ = 0, left_ = 0;
  SvgWriter svg_;
};

}  // namespace

std::string heatMap(const Report& report) {
  return HeatMap(report).draw();
}

}  // namespace horing::check
