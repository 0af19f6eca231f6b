#include <algorithm>
#include <cmath>
#include <map>

#include "common/svg.h"
#include "plan.h"

namespace horing::topo {

namespace {

// A hue for each way that a hop of the ring can take; boxes grow paler to the outside.
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

constexpr double kMargin = 20, kTop = 66, kPad = 9, kHeader = 21, kGap = 8;
constexpr double kDeviceWidth = 104, kDeviceHeight = 60;
constexpr double kLetter = 6.1;  // a wide guess of a letter's width, so that no text leaves its box
constexpr size_t kMaxListedRails = 32;

struct Size {
  double width = 0;
  double height = 0;
};
struct Place {
  double x = 0;
  double y = 0;
  Size size;
};

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

// "rail 3", "rails 0-3,6", "no rail".
std::string railsText(const std::vector<size_t>& rails) {
  std::string text;
  for (size_t i = 0; i < rails.size();) {
    size_t last = i;
    while (last + 1 < rails.size() && rails[last + 1] == rails[last] + 1) ++last;
    text += (i == 0 ? "" : ",") + std::to_string(rails[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(rails[last]);
    i = last + 1;
  }
  return text.empty() ? "no rail" : (rails.size() == 1 ? "rail " : "rails ") + text;
}

// Nested boxes whose lowest row are GPUs, NICs above them, and the ring hanging below.
class Picture {
 public:
  Picture(const MachinePlan& plan, const std::string& title)
      : plan_(plan), graph_(plan.graph), title_(title) {
    for (size_t member = 0; member < plan.rails.size(); ++member)
      for (const int32_t nic : plan.rails[member].nics) rails_of_nic_[nic].push_back(member);
  }

  std::string draw() {
    const Size all = measure(0);
    const double width = std::max(all.width + 2 * kMargin, textWidth());
    place(0, {(width - all.width) / 2, kTop, all});
    drawNode(0);
    const double bottom = drawRing(kTop + all.height);
    const double end = drawNotes(bottom + 26);
    svg_.text(kMargin, 28, "title", title_.empty() ? "machine" : title_);
    svg_.text(kMargin, 48, "note", summary(graph_));
    return svg_.finish(width, end + kMargin, title_, kStyle);
  }

 private:
  static bool isDevice(const GraphNode& node) {
    return node.kind == NodeKind::kGpu || node.kind == NodeKind::kNic;
  }

  std::vector<int32_t> childrenOf(int32_t index, bool (*wanted)(const GraphNode&)) const {
    std::vector<int32_t> found;
    for (const int32_t child : graph_.childrenOf(index))
      if (wanted(graph_.node(child))) found.push_back(child);
    return found;
  }
  std::vector<int32_t> boxesIn(int32_t index) const {
    return childrenOf(
        index, [](const GraphNode& node) { return !isDevice(node) && node.kind != NodeKind::kFabric; });
  }
  std::vector<int32_t> gpusIn(int32_t index) const {
    return childrenOf(index, [](const GraphNode& node) { return node.kind == NodeKind::kGpu; });
  }
  std::vector<int32_t> nicsIn(int32_t index) const {
    return childrenOf(index, [](const GraphNode& node) { return node.kind == NodeKind::kNic; });
  }
  static size_t columns(size_t gpus, size_t nics) { return std::max(gpus, std::min<size_t>(nics, 2)); }

  std::string headerOf(int32_t index) const {
    const GraphNode& node = graph_.node(index);
    std::string text = index == 0 ? (node.detail.empty() ? "machine" : node.detail) : plan_.nodeName(index);
    if (node.kind == NodeKind::kBridge && node.gbytes_per_s > 0)
      text += ", " + bandwidthText(node.gbytes_per_s);
    if (node.kind == NodeKind::kPackage && !node.detail.empty()) text += ", " + node.detail;
    return text;
  }

  // Devices of a box in rows: NICs above, GPUs in the lowest.
  Size devicesSize(int32_t index) const {
    const size_t gpus = gpusIn(index).size();
    const size_t nics = nicsIn(index).size();
    if (gpus + nics == 0) return {};
    const auto across = static_cast<double>(columns(gpus, nics));
    const double rows = std::ceil(static_cast<double>(nics) / across) + (gpus > 0 ? 1 : 0);
    return {across * (kDeviceWidth + kGap) - kGap, rows * (kDeviceHeight + kGap) - kGap};
  }

  Size measure(int32_t index) {
    Size inner = devicesSize(index);
    for (const int32_t box : boxesIn(index)) {
      const Size size = measure(box);
      inner.width += size.width + (inner.width > 0 ? kGap : 0);
      inner.height = std::max(inner.height, size.height);
    }
    const double shortest = std::min(240.0, static_cast<double>(headerOf(index).size()) * kLetter);
    return sizes_[index] = {std::max(inner.width, shortest) + 2 * kPad, inner.height + kHeader + 2 * kPad};
  }

  void place(int32_t index, const Place& at) {
    places_[index] = at;
    double x = at.x + kPad;
    const double floor = at.y + at.size.height - kPad;
    // What is lower than the box stands on its floor; what is left of the width is shared out.
    double used = devicesSize(index).width;
    size_t parts = used > 0 ? 1 : 0;
    for (const int32_t box : boxesIn(index)) used += sizes_[box].width, ++parts;
    if (parts > 1) used += kGap * static_cast<double>(parts - 1);
    x += std::max(0.0, (at.size.width - 2 * kPad - used) / 2);
    for (const int32_t box : boxesIn(index)) {
      const Size size = sizes_[box];
      place(box, {x, floor - size.height, size});
      x += size.width + kGap;
    }
    placeDevices(index, x, floor);
  }

  void placeDevices(int32_t index, double x, double floor) {
    const std::vector<int32_t> gpus = gpusIn(index);
    const std::vector<int32_t> nics = nicsIn(index);
    const size_t across = std::max<size_t>(columns(gpus.size(), nics.size()), 1);
    const Size device{kDeviceWidth, kDeviceHeight};
    for (size_t i = 0; i < gpus.size(); ++i)
      places_[gpus[i]] = {x + static_cast<double>(i) * (kDeviceWidth + kGap), floor - kDeviceHeight, device};
    const double nic_floor = gpus.empty() ? floor : floor - kDeviceHeight - kGap;
    for (size_t i = 0; i < nics.size(); ++i)
      places_[nics[i]] = {
          x + static_cast<double>(i % across) * (kDeviceWidth + kGap),
          nic_floor - kDeviceHeight - static_cast<double>(i / across) * (kDeviceHeight + kGap), device};
  }

  void drawNode(int32_t index) {
    const GraphNode& node = graph_.node(index);
    const Place& at = places_[index];
    svg_.rect(at.x, at.y, at.size.width, at.size.height, std::string("box ") + nodeKindName(node.kind));
    if (isDevice(node)) return drawDevice(index, at);
    svg_.text(at.x + kPad, at.y + 15, "note", cut(headerOf(index), at.size.width - 2 * kPad));
    for (const int32_t child : graph_.childrenOf(index))
      if (graph_.node(child).kind != NodeKind::kFabric) drawNode(child);
  }

  void drawDevice(int32_t index, const Place& at) {
    const GraphNode& node = graph_.node(index);
    const bool gpu = node.kind == NodeKind::kGpu;
    const double middle = at.x + at.size.width / 2;
    const double room = at.size.width - 8;
    svg_.text(middle, at.y + 15, "name", cut(plan_.nodeName(index), room * 0.9), Anchor::kMiddle);
    const std::string where = node.bus == node.name && !gpu ? "" : node.bus;
    svg_.text(middle, at.y + 28, "small", cut(where, room), Anchor::kMiddle);
    const double speed = gpu || node.port_gbytes_per_s == 0 ? node.gbytes_per_s : node.port_gbytes_per_s;
    svg_.text(middle, at.y + 41, "small", speed > 0 ? bandwidthText(speed) : "", Anchor::kMiddle);
    svg_.text(middle, at.y + 54, "small", cut(gpu ? railOf(index) : railsText(rails_of_nic_[index]), room),
              Anchor::kMiddle);
  }

  std::string railOf(int32_t gpu) const {
    const auto found = std::find(plan_.members.begin(), plan_.members.end(), gpu);
    return "rail " + std::to_string(found - plan_.members.begin());
  }

  // Returns how low it reaches.
  double drawRing(double floor) {
    const std::vector<int32_t>& order = plan_.ring.order;
    double lowest = floor;
    for (size_t i = 0; order.size() > 1 && i < order.size(); ++i) {
      const int32_t from = plan_.members[static_cast<size_t>(order[i])];
      const int32_t to = plan_.members[static_cast<size_t>(order[(i + 1) % order.size()])];
      const Place& a = places_[from];
      const Place& b = places_[to];
      const bool rightward = a.x < b.x;
      const double x1 = a.x + a.size.width / 2 + (rightward ? 12 : 30);
      const double x2 = b.x + b.size.width / 2 + (rightward ? -12 : -30);
      // To the left lower than to the right, so that the way back is seen below.
      const double depth = 16 + std::min(0.085 * std::abs(x2 - x1), 84.0) + (rightward ? 0 : 14);
      const double y = std::max(a.y + a.size.height, b.y + b.size.height);
      const GraphPath path = graph_.path(from, to);
      svg_.beginGroup(plan_.nodeName(from) + " to " + plan_.nodeName(to) + ": " + pathKindName(path.kind) +
                      ", " + bandwidthText(path.gbytes_per_s));
      svg_.hangingArrow(x1, a.y + a.size.height, x2, b.y + b.size.height, depth, hopClass(path.kind));
      svg_.endGroup();
      lowest = std::max(lowest, y + depth);
    }
    return lowest;
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> lines;
    const std::string ring = ringText(plan_);
    if (!ring.empty()) {
      lines.push_back("ring: " + ring);
      lines.push_back("narrowest hop " + bandwidthText(plan_.ring.gbytes_per_s) +
                      "; farthest: " + pathKindName(plan_.ring.worst));
    }
    for (const int32_t fabric : graph_.ofKind(NodeKind::kFabric)) {
      size_t joined = 0;
      double narrowest = kMaxGBytesPerS;
      for (const GraphLink& link : graph_.links())
        if (link.a == fabric || link.b == fabric)
          ++joined, narrowest = std::min(narrowest, link.gbytes_per_s);
      lines.push_back(formatString("%s joins %zu GPUs, ", graph_.node(fabric).name.c_str(), joined) +
                      bandwidthText(narrowest) + " each");
    }
    const std::vector<std::string> rails = railLines(plan_);
    lines.insert(lines.end(), rails.begin(),
                 rails.begin() + static_cast<long>(std::min(rails.size(), kMaxListedRails)));
    return lines;
  }

  double textWidth() const {
    size_t longest = summary(graph_).size();
    for (const std::string& line : notes()) longest = std::max(longest, line.size());
    return std::max(560.0, static_cast<double>(longest) * kLetter + 2 * kMargin);
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
    for (const std::string& line : notes()) {
      svg_.text(kMargin, y, "note", line);
      y += 16;
    }
    return y - 16;
  }

  const MachinePlan& plan_;
  const MachineGraph& graph_;
  std::string title_;
  SvgWriter svg_;
  std::map<int32_t, std::vector<size_t>> rails_of_nic_;
  std::map<int32_t, Size> sizes_;
  std::map<int32_t, Place> places_;
};

}  // namespace

std::string planAsSvg(const MachinePlan& plan, const std::string& title) {
  return Picture(plan, title).draw();
}

}  // namespace horing::topo
