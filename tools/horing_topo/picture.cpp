#include <algorithm>
#include <cmath>
#include <map>

#include "common/svg.h"
#include "layout.h"
#include "notes.h"
#include "plan.h"

namespace horing::topo {

namespace {

// A hue for each kind of path of a hop; outer boxes are paler.
constexpr const char* kStyle = R"(
text{font-size:10.5px}
.small{font-size:9.5px;fill:#5a6675}
.name{font-weight:600;font-size:11.5px}
.box{rx:6px;stroke-width:1}
.machine{fill:#fafbfc;stroke:#c3cad3}
.package{fill:#f1f4f8;stroke:#b4bdc9}
.numa{fill:#e6ecf4;stroke:#9fabbb}
.bridge{fill:#dae4f0;stroke:#8798ad}
.gpu{fill:#d8f0df;stroke:#23824a}
.nic{fill:#fde6cd;stroke:#c26a12}
.arrow{fill:none;stroke-width:1.8;stroke:#5a6675}
.head{fill:#5a6675}
.direct{stroke:#23824a}
.switch{stroke:#2f6fc4}
.host{stroke:#c26a12}
.far{stroke:#b3261e}
@media (prefers-color-scheme:dark){.note,.small{fill:#9aa5b3}
.machine{fill:#161b22;stroke:#3b4552}
.package{fill:#1a212b;stroke:#445061}
.numa{fill:#1f2936;stroke:#51607a}
.bridge{fill:#253447;stroke:#647a99}
.gpu{fill:#143822;stroke:#5fc687}
.nic{fill:#43290d;stroke:#eda055}
.arrow{stroke:#9aa5b3}
.head{fill:#9aa5b3}
.direct{stroke:#5fc687}
.switch{stroke:#6ea6ef}
.host{stroke:#eda055}
.far{stroke:#f2867e}
}
)";

constexpr double kTop = 66;
constexpr double kTitleShare = 0.55;                     // of the width: its letters are larger
constexpr double kRingHeight = 116, kLegendHeight = 48;  // below the last row
constexpr double kWay = 7;                               // between the ways of the ring from row to row
constexpr size_t kTracks = 12;  // beside the machine, for such ways; more of them share these

std::string cut(const std::string& text, double width) {
  const auto letters = static_cast<size_t>(std::lround(width / kLetter));
  return text.size() <= letters ? text : text.substr(0, letters - 2) + "..";
}

const char* hopClass(PathKind kind) {
  switch (kind) {
    case PathKind::kSame:
    case PathKind::kDirect:
      return "direct";
    case PathKind::kBridge:
      return "switch";
    case PathKind::kNuma:
      return "host";
    default:
      return "far";
  }
}

// Nested boxes whose lowest row are GPUs, NICs above them, and the ring hanging below.
class Picture {
 public:
  Picture(const MachinePlan& plan, const std::string& title)
      : plan_(plan),
        graph_(plan.graph),
        title_(title.empty() ? "machine" : title),
        notes_(plan),
        layout_(
            plan.graph, [this](int32_t node) { return headerOf(node); }, roomForMachine()) {
    for (size_t member = 0; member < plan.rails.size(); ++member)
      for (const int32_t nic : plan.rails[member].nics) rails_of_nic_[nic].push_back(member);
  }

  std::string draw() {
    const Size all = layout_.size();
    layout_.place(kMargin, kTop);
    const double right =
        kMargin + all.width + kWay * static_cast<double>(std::min(waysBetweenRows(), kTracks) + 1);
    const double width = std::max({right + kMargin, notes_.size().width + 2 * kMargin, 560.0});
    drawNode(0);
    const double bottom = drawRing(kTop + all.height);
    const double end = drawNotes(bottom + 26);
    svg_.text(kMargin, 28, "title", cut(title_, width * kTitleShare));
    svg_.text(kMargin, 48, "note", summary(graph_));
    return svg_.finish(width, end + kMargin, title_, kStyle);
  }

 private:
  static bool isDevice(const GraphNode& node) {
    return node.kind == NodeKind::kGpu || node.kind == NodeKind::kNic;
  }

  std::string headerOf(int32_t index) const {
    const GraphNode& node = graph_.node(index);
    std::string text = index == 0 ? (node.detail.empty() ? "machine" : node.detail) : plan_.nodeName(index);
    if (node.kind == NodeKind::kBridge && node.gbytes_per_s > 0)
      text += ", " + bandwidthText(node.gbytes_per_s);
    if (node.kind == NodeKind::kPackage && !node.detail.empty()) text += ", " + node.detail;
    return text;
  }

  void drawNode(int32_t index) {
    const GraphNode& node = graph_.node(index);
    const Place& at = layout_.at(index);
    svg_.rect(at.x, at.y, at.size.width, at.size.height, std::string("box ") + nodeKindName(node.kind));
    if (isDevice(node)) return drawDevice(index, at);
    svg_.text(at.x + kPad, at.y + 15, "note", cut(layout_.header(index), at.size.width - 2 * kPad));
    for (const int32_t child : graph_.childrenOf(index))
      if (layout_.isDrawn(child)) drawNode(child);
  }

  void drawDevice(int32_t index, const Place& at) {
    const GraphNode& node = graph_.node(index);
    const bool gpu = node.kind == NodeKind::kGpu;
    const double middle = at.x + at.size.width / 2;
    const double room = at.size.width - 8;
    // A file may have no name for an adapter; its address fills the box in the letters of a name.
    const std::string name = node.bus == node.name && !gpu ? "adapter" : plan_.nodeName(index);
    svg_.text(middle, at.y + 15, "name", cut(name, room * 0.9), Anchor::kMiddle);
    svg_.text(middle, at.y + 28, "small", cut(node.bus, room), Anchor::kMiddle);
    const double speed = node.host_gbytes_per_s > 0           ? node.host_gbytes_per_s
                         : gpu || node.port_gbytes_per_s == 0 ? node.gbytes_per_s
                                                              : node.port_gbytes_per_s;
    const bool is_link_of_nic = !gpu && node.port_gbytes_per_s == 0 && speed > 0;
    svg_.text(middle, at.y + 41, "small", (is_link_of_nic ? "PCIe " : "") + bandwidthText(speed),
              Anchor::kMiddle);
    svg_.text(middle, at.y + 54, "small", cut(gpu ? railOf(index) : railsText(rails_of_nic_[index]), room),
              Anchor::kMiddle);
  }

  std::string railOf(int32_t gpu) const {
    const auto found = std::find(plan_.members.begin(), plan_.members.end(), gpu);
    return "rail " + std::to_string(found - plan_.members.begin());
  }

  int32_t ringMember(size_t place) const {
    const std::vector<int32_t>& order = plan_.ring.order;
    return plan_.members[static_cast<size_t>(order[place % order.size()])];
  }
  bool sameRow(int32_t a, int32_t b) const {
    return std::abs(layout_.at(a).floor() - layout_.at(b).floor()) < kDeviceHeight;
  }
  size_t hops() const { return plan_.ring.order.size() > 1 ? plan_.ring.order.size() : 0; }
  size_t waysBetweenRows() const {
    size_t ways = 0;
    for (size_t i = 0; i < hops(); ++i)
      ways += isDrawnHop(i) && !sameRow(ringMember(i), ringMember(i + 1)) ? 1 : 0;
    return ways;
  }
  bool isDrawnHop(size_t hop) const {
    return layout_.isDrawn(ringMember(hop)) && layout_.isDrawn(ringMember(hop + 1));
  }

  // Returns its lower end.
  double drawRing(double floor) {
    double lowest = floor;
    size_t way = 0;
    for (size_t i = 0; i < hops(); ++i) {
      if (!isDrawnHop(i)) continue;
      const int32_t from = ringMember(i), to = ringMember(i + 1);
      const GraphPath path = graph_.path(from, to, plan_.ring.gbytes_per_s);
      svg_.beginGroup(plan_.nodeName(from) + " to " + plan_.nodeName(to) + ": " + pathKindName(path.kind) +
                      ", " + bandwidthText(path.gbytes_per_s));
      const double low = sameRow(from, to) ? drawHop(from, to, hopClass(path.kind))
                                           : drawWay(from, to, hopClass(path.kind), way++);
      lowest = std::max(lowest, low);
      svg_.endGroup();
    }
    return lowest;
  }

  double drawHop(int32_t from, int32_t to, const char* css_class) {
    const Place& a = layout_.at(from);
    const Place& b = layout_.at(to);
    const bool rightward = a.x < b.x;
    const double x1 = a.middle() + (rightward ? 12 : 30), x2 = b.middle() + (rightward ? -12 : -30);
    // To the left lower than to the right, so that the way back is seen below.
    const bool is_last_row = layout_.at(0).floor() - a.floor() < kRingGap;
    const double flat = is_last_row ? 84 : kRingGap - 38;
    const double depth = 16 + std::min(0.085 * std::abs(x2 - x1), flat) + (rightward ? 0 : 14);
    svg_.hangingArrow(x1, a.floor(), x2, b.floor(), depth, css_class);
    return std::max(a.floor(), b.floor()) + depth;
  }

  // Below the one row, beside the machine, and below the other.
  double drawWay(int32_t from, int32_t to, const char* css_class, size_t number) {
    const Place& a = layout_.at(from);
    const Place& b = layout_.at(to);
    const double shift = kWay * static_cast<double>(number % kTracks + 1);
    const double beside = layout_.at(0).x + layout_.at(0).size.width + shift;
    const double below = std::min(16 + shift, kRingGap - 10);
    const std::pair<double, double> points[] = {
        {a.middle() + 21, a.floor()}, {a.middle() + 21, a.floor() + below}, {beside, a.floor() + below},
        {beside, b.floor() + below},  {b.middle() - 21, b.floor() + below}, {b.middle() - 21, b.floor() + 5}};
    svg_.bentArrow(points, css_class);
    return std::max(a.floor(), b.floor()) + below;
  }

  Size roomForMachine() const {
    return {kScreen - 2 * kMargin - kWay * (kTracks + 1),
            kScreen - kTop - kRingHeight - kLegendHeight - notes_.size().height - kMargin};
  }

  double drawNotes(double y) {
    constexpr std::pair<const char*, const char*> kLegend[] = {{"direct", "direct link"},
                                                               {"switch", "one PCIe switch"},
                                                               {"host", "one NUMA node"},
                                                               {"far", "farther"}};
    double x = kMargin;
    for (const auto& [css_class, meaning] : kLegend) {
      if (plan_.ring.order.size() < 2) break;
      svg_.line(x, y - 4, x + 26, y - 4, std::string("arrow ") + css_class);
      svg_.text(x + 32, y, "note", meaning);
      x += 132;
    }
    if (plan_.ring.order.size() > 1) y += 22;
    for (const Notes::Note& note : notes_.all()) svg_.text(kMargin + note.x, y + note.y, "note", note.text);
    return y + notes_.size().height - kNoteLine;
  }

  const MachinePlan& plan_;
  const MachineGraph& graph_;
  std::string title_;
  const Notes notes_;
  Layout layout_;
  SvgWriter svg_;
  std::map<int32_t, std::vector<size_t>> rails_of_nic_;
};

}  // namespace

std::string planAsSvg(const MachinePlan& plan, const std::string& title) {
  return Picture(plan, title).draw();
}

}  // namespace horing::topo
