#pragma once
// Lines over a logarithmic axis, as SVG for light and dark.
#include <functional>
#include <string>
#include <vector>

namespace horing {

// Round numbers from the least to the most, at most about eight of them.
std::vector<double> linearTicks(double least, double most);

struct Curve {
  std::string name;
  // x > 0. Missing points are omitted.
  std::vector<std::pair<double, double>> points;
  std::vector<double> circled = {};  // the x of points that are better than the points of other curves
  size_t colour = 0;                 // below kMaxColours
  bool is_dashed = false;
  bool is_wide = false;                                     // and pale: lies below the others
  std::vector<std::pair<double, std::string>> labels = {};  // beside the points at these x
};

// A range in which a property holds, as a bar above the x axis, or, if from == to, a line across the plot.
struct Span {
  double from = 0, to = 0;
  std::string name;
  bool is_dashed = false;
};

struct Chart {
  std::string title;
  std::vector<std::string> notes;  // lines below the title
  std::string x_name, y_name;
  std::function<std::string(double)> x_text;
  std::vector<Curve> curves;
  bool y_is_logarithmic = false;
  double y_least = 0;  // of a linear axis
  double y_most = 0;   // 0: as the points need
  // A band of published values; none if equal.
  double band_least = 0, band_most = 0;
  std::string band_name;
  std::vector<Span> spans;
};
inline constexpr size_t kMaxColours = 8;

std::string drawChart(const Chart& chart);

}  // namespace horing
