#include "common/svg.h"

#include <algorithm>

#include "base/status.h"

namespace horing {

namespace {

constexpr const char* kCommonStyle = R"(
text{font-family:system-ui,'DejaVu Sans',sans-serif;font-size:12px;fill:#1f2733}
.page{fill:#ffffff}
.title{font-size:16px;font-weight:600}
.note,.tick{fill:#5a6675}
.tick{font-size:11px}
.grid{stroke:#e6e9ee;stroke-width:1}
.axis{stroke:#7b8694;stroke-width:1.2}
@media (prefers-color-scheme:dark){text{fill:#e4e8ee}.page{fill:#14181d}.note,.tick{fill:#a4afbd}.grid{stroke:#2a313a}}
)";

}  // namespace

std::string escapeXml(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t') escaped += c;
    }
  }
  return escaped;
}

namespace {

std::string attribute(const char* name, double value) {
  return formatString(" %s=\"%.5g\"", name, value);
}

std::string classAttribute(std::string_view css_class) {
  return " class=\"" + escapeXml(css_class) + "\"";
}

}  // namespace

void SvgWriter::rect(double x, double y, double width, double height, std::string_view css_class) {
  body_ += "<rect" + attribute("x", x) + attribute("y", y) + attribute("width", width) +
           attribute("height", height) + classAttribute(css_class) + "/>\n";
}

void SvgWriter::circle(double x, double y, double radius, std::string_view css_class) {
  body_ += "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", radius) +
           classAttribute(css_class) + "/>\n";
}

void SvgWriter::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
           classAttribute(css_class) + "/>\n";
}

void SvgWriter::arrow(double x1, double y1, double x2, double y2, std::string_view css_class) {
  const double tip = 5;  // length of the arrow head
  // Limited to the free space, so that the line does not run behind the boxes that it joins.
  const double bend = std::clamp((x2 - tip - x1) * 0.75, 8.0, 60.0);
  body_ += formatString("<path d=\"M%.5g %.5gC%.5g %.5g %.5g %.5g %.5g %.5g\" marker-end=\"url(#head)\"", x1,
                        y1, x1 + bend, y1, x2 - tip - bend, y2, x2 - tip, y2) +
           classAttribute(std::string("arrow ").append(css_class)) + "/>\n";
}

void SvgWriter::hangingArrow(double x1, double y1, double x2, double y2, double depth,
                             std::string_view css_class) {
  const double tip = 5;
  // A cubic curve reaches three quarters of the way to its control points.
  const double low = std::max(y1, y2) + depth / 0.75;
  body_ += formatString("<path d=\"M%.5g %.5gC%.5g %.5g %.5g %.5g %.5g %.5g\" marker-end=\"url(#head)\"", x1,
                        y1, x1, low, x2, low, x2, y2 + tip) +
           classAttribute(std::string("arrow ").append(css_class)) + "/>\n";
}

void SvgWriter::bentArrow(std::span<const std::pair<double, double>> points, std::string_view css_class) {
  body_ += "<path d=\"";
  for (size_t i = 0; i < points.size(); ++i)
    body_ += formatString("%c%.5g %.5g", i == 0 ? 'M' : 'L', points[i].first, points[i].second);
  body_ += "\" marker-end=\"url(#head)\"" + classAttribute(std::string("arrow ").append(css_class)) + "/>\n";
}

void SvgWriter::text(double x, double y, std::string_view css_class, std::string_view text, Anchor anchor) {
  const char* anchors[] = {"start", "middle", "end"};
  body_ += "<text" + attribute("x", x) + attribute("y", y) + classAttribute(css_class) +
           formatString(" text-anchor=\"%s\">", anchors[static_cast<int>(anchor)]) + escapeXml(text) +
           "</text>\n";
}

void SvgWriter::beginGroup(std::string_view tooltip) {
  body_ += "<g><title>" + escapeXml(tooltip) + "</title>\n";
}

void SvgWriter::endGroup() {
  body_ += "</g>\n";
}

std::string SvgWriter::finish(double width, double height, std::string_view title,
                              std::string_view style) const {
  std::string document = formatString(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "role=\"img\">\n",
      width, height, width, height);
  document += "<title>" + escapeXml(title) + "</title>\n<style>" + escapeXml(kCommonStyle) +
              escapeXml(style) + "</style>\n";
  document +=
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" "
      "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.5L8 4L0 7.5z\" "
      "class=\"head\"/></marker></defs>\n";
  return document + formatString("<rect width=\"%.0f\" height=\"%.0f\" class=\"page\"/>\n", width, height) +
         body_ + "</svg>\n";
}

}  // namespace horing
