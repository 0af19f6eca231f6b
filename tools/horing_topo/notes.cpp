#include "notes.h"

#include <algorithm>

namespace horing::topo {

namespace {

constexpr double kColumnGap = 24;
constexpr double kWideLetter = 7;  // of lines with many capitals
constexpr size_t kMostLetters = 140;
constexpr size_t kMostRingLines = 6, kMostRows = 24;  // the latter of what stands in columns
constexpr size_t kFewLines = 16;                      // are not worth columns

// Broken at spaces.
std::vector<std::string> wrapped(std::string text) {
  std::vector<std::string> lines;
  while (text.size() > kMostLetters) {
    const size_t space = text.rfind(' ', kMostLetters);
    if (space == std::string::npos || space < kMostLetters / 2) {
      text.replace(kMostLetters - 2, std::string::npos, "..");
      break;
    }
    lines.push_back(text.substr(0, space));
    text.erase(0, space + 1);
  }
  lines.push_back(std::move(text));
  return lines;
}

std::vector<std::string> allWrapped(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) std::ranges::move(wrapped(text), std::back_inserter(all));
  return all;
}

std::vector<std::string> firstOf(std::vector<std::string> lines, size_t most) {
  if (lines.size() <= most) return lines;
  lines.resize(most);
  lines.back() = ".. and more: 'horing-topo' prints all";
  return lines;
}

double widthOf(const std::vector<std::string>& lines) {
  size_t longest = 0;
  for (const std::string& line : lines) longest = std::max(longest, line.size());
  return static_cast<double>(longest) * kWideLetter;
}

std::string fabricLine(const MachineGraph& graph, int32_t fabric) {
  size_t joined = 0;
  double narrowest = kMaxGBytesPerS;
  for (const GraphLink& link : graph.links())
    if (link.a == fabric || link.b == fabric) ++joined, narrowest = std::min(narrowest, link.gbytes_per_s);
  return formatString("%s joins %zu GPUs, ", graph.node(fabric).name.c_str(), joined) +
         bandwidthText(narrowest) + " each";
}

}  // namespace

Notes::Notes(const MachinePlan& plan) {
  if (const std::string ring = ringText(plan); !ring.empty())
    write(firstOf(wrapped("ring: " + ring), kMostRingLines));
  write(ringReasons(plan));
  Lines fabrics;
  for (const int32_t fabric : plan.graph.ofKind(NodeKind::kFabric))
    fabrics.push_back(fabricLine(plan.graph, fabric));
  write(fabrics);
  write(railLines(plan));
  write(railReasons(plan));
  write(plan.graph.remarks());
}

void Notes::write(const Lines& texts) {
  Lines lines = allWrapped(texts);
  const double width = widthOf(lines);
  const auto fit = static_cast<size_t>((kScreen - 2 * kMargin + kColumnGap) / (width + kColumnGap));
  const size_t columns = lines.size() <= kFewLines ? 1 : std::max<size_t>(fit, 1);
  lines = firstOf(std::move(lines), kMostRows * columns);
  const size_t rows = (lines.size() + columns - 1) / columns;
  for (size_t i = 0; i < lines.size(); ++i) {
    const double x = static_cast<double>(i / rows) * (width + kColumnGap);
    notes_.push_back({x, size_.height + static_cast<double>(i % rows) * kNoteLine, lines[i]});
    size_.width = std::max(size_.width, x + width);
  }
  size_.height += static_cast<double>(rows) * kNoteLine;
}

}  // namespace horing::topo
