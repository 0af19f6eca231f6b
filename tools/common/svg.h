#pragma once
// Writes SVG text: shapes with classes, styled by one style sheet for light and dark mode.
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace horing {

// & < > " ' replaced, bytes that XML forbids dropped.
std::string escapeXml(std::string_view text);

enum class Anchor { kStart, kMiddle, kEnd };

class SvgWriter {
 public:
  void rect(double x, double y, double width, double height, std::string_view css_class);
  void circle(double x, double y, double radius, std::string_view css_class);
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  // An arrow with a head, leaving and arriving horizontally.
  void arrow(double x1, double y1, double x2, double y2, std::string_view css_class);
  // An arrow that hangs between two points, `depth` below the lower one.
  void hangingArrow(double x1, double y1, double x2, double y2, double depth, std::string_view css_class);
  // Through these points, the head at the last one.
  void bentArrow(std::span<const std::pair<double, double>> points, std::string_view css_class);
  void text(double x, double y, std::string_view css_class, std::string_view text,
            Anchor anchor = Anchor::kStart);
  void beginGroup(std::string_view tooltip);
  void endGroup();

  // The whole document. `style` is CSS appended to the common style sheet, which has text and the classes page, title, note, tick, grid and
  // axis, in light and dark mode. Arrow heads take the colour of class `arrow`.
  std::string finish(double width, double height, std::string_view title, std::string_view style) const;

 private:
  std::string body_;
};

}  // namespace horing
