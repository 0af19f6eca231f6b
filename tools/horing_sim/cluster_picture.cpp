#include "cluster_picture.h"

#include <algorithm>
#include <vector>

#include "common/quantity.h"
#include "common/svg.h"
#include "units.h"

namespace horing {

namespace {

// What is drawn fits on a screen of 1,600 pixels.
constexpr int32_t kMostNodes = 11, kRanksInRow = 8, kMostRows = 32;
constexpr double kLeft = 24, kColumn = 132, kSwitch = 66, kNode = 214, kRank = 12, kFoot = 44;
constexpr double kThickest = 22;  // of a link: that of the highest rate

constexpr const char* kStyle = R"(
text{font-size:11px}
.name{font-weight:600}
.switch,.node{fill:#f6f7f9;stroke:#c3cad3;stroke-width:1}
.rank{fill:#2f6fc4}
.link{fill:#e3e7ec}
.used{fill:#c26a12}
@media (prefers-color-scheme:dark){.switch,.node{fill:#1b2027;stroke:#3b4552}.rank{fill:#6ea6ef}.link{fill:#2a313b}.used{fill:#eda055}}
)";

// Three digits, for what is no round number.
std::string bytesText(double bytes) {
  if (bytes >= 0x1p30) return formatString("%.3g GiB", bytes / 0x1p30);
  return bytes >= 0x1p20 ? formatString("%.3g MiB", bytes / 0x1p20)
                         : formatString("%.3g KiB", bytes / 0x1p10);
}

// Bytes over all links of a node, each way.
struct Traffic {
  double sends = 0, receives = 0;
};

std::vector<Traffic> trafficOf(const Prediction& prediction, const FoldedNetwork& network) {
  std::vector<Traffic> traffic(static_cast<size_t>(prediction.question.machine.nodes));
  const Folding& folding = network.folding();
  for (const MessageRecord& message : prediction.result.message_records) {
    const Wire& wire = network.wires()[static_cast<size_t>(message.wire)];
    if (!wire.crosses_nodes) continue;
    const auto bytes = static_cast<double>(message.bytes);
    traffic[static_cast<size_t>(folding.nodeOf(wire.from))].sends += bytes;
    traffic[static_cast<size_t>(folding.folds() ? 0 : folding.nodeOf(wire.to))].receives += bytes;
  }
  if (folding.folds()) std::fill(traffic.begin(), traffic.end(), Traffic(traffic.front()));
  return traffic;
}

class ClusterPicture {
 public:
  ClusterPicture(const Prediction& prediction, const FoldedNetwork& network)
      : prediction_(prediction),
        machine_(prediction.question.machine),
        traffic_(trafficOf(prediction, network)),
        drawn_(std::min(machine_.nodes, kMostNodes)) {
    for (int32_t node = 0; node < machine_.nodes; ++node) highest_ = std::max(highest_, rateOf(node));
  }

  std::string draw() {
    const double rows = std::min((machine_.ranks_per_node + kRanksInRow - 1) / kRanksInRow, kMostRows);
    const double bottom = kNode + 40 + rows * (kRank + 3);
    svg_.text(kLeft, 26, "title", title());
    svg_.text(kLeft, 44, "note", note());
    svg_.rect(kLeft, kSwitch, kColumn * drawn_, 20, "switch");
    svg_.text(kLeft + kColumn * drawn_ / 2, kSwitch + 14, "note", "network between the nodes",
              Anchor::kMiddle);
    for (int32_t node = 0; node < drawn_; ++node) drawNode(node, bottom);
    svg_.text(kLeft, bottom + 26, "note",
              "width of a link: its rate; filled: the part of the time for which it sends (left) and "
              "receives (right)");
    return svg_.finish(std::max(kLeft * 2 + kColumn * drawn_, 660.0), bottom + kFoot, title(), kStyle);
  }

 private:
  // Of all NICs of a node, in bytes per picosecond; 0: unlimited.
  double rateOf(int32_t node) const {
    const LinkParts parts = machine_.linksOf(node);
    return machine_.nicsOf(node) * std::min(parts.sends, parts.receives) * machine_.between.gbytes_per_s /
           1000;
  }
  std::string title() const {
    const Question& q = prediction_.question;
    return formatString("%s %s of %s on %s: %s", q.algorithm.c_str(), collectiveName(q.collective),
                        sizeText(q.bytes).c_str(), shapeText(machine_).c_str(),
                        timeText(prediction_.result.time).c_str());
  }
  std::string note() const {
    std::string text = "what the links of each node carry";
    if (prediction_.bound > 0) text += formatString("; %.3f x the wire bound", prediction_.overBound());
    if (drawn_ < machine_.nodes) text += formatString("; the first %d of %d nodes", drawn_, machine_.nodes);
    if (machine_.ranks_per_node > kMostRows * kRanksInRow)
      text += formatString("; the first %d ranks of a node", kMostRows * kRanksInRow);
    return text;
  }

  void drawNode(int32_t node, double bottom) {
    const double left = kLeft + kColumn * node, middle = left + kColumn / 2;
    drawLink(node, middle);
    svg_.rect(left + 6, kNode, kColumn - 12, bottom - kNode, "node");
    const int32_t ranks = machine_.ranksOf(node);
    svg_.text(left + 11, kNode + 16, "name",
              formatString("node %d: %d rank%s", node, ranks, ranks == 1 ? "" : "s"));
    if (const Shares& shares = prediction_.schedules->front().shares)
      svg_.text(left + 11, kNode + 30, "note",
                formatString("reduces %.0f %%",
                             100.0 * shares.parts()[static_cast<size_t>(node)] / Shares::kWhole));
    for (int32_t rank = 0; rank < std::min(ranks, kMostRows * kRanksInRow); ++rank)
      svg_.rect(left + 11 + rank % kRanksInRow * (kRank + 2), kNode + 37 + rank / kRanksInRow * (kRank + 3),
                kRank, kRank, "rank");
  }

  void drawLink(int32_t node, double middle) {
    const double top = kSwitch + 20, height = kNode - top - 44, rate = rateOf(node);
    const double width = highest_ > 0 ? std::max(kThickest * rate / highest_, 2.0) : kThickest;
    const Traffic& carried = traffic_[static_cast<size_t>(node)];
    const double whole = rate * static_cast<double>(std::max<Picoseconds>(prediction_.result.time, 1));
    const auto half = [&](double left, double bytes) {
      svg_.rect(left, top, width - 1, height, "link");
      const double used = whole > 0 ? std::min(bytes / whole, 1.0) : 0;
      svg_.rect(left, top + height * (1 - used), width - 1, height * used, "used");
    };
    half(middle - width, carried.sends);
    half(middle + 1, carried.receives);
    const auto text = [&](double y, const std::string& line) {
      svg_.text(middle, y, "note", line, Anchor::kMiddle);
    };
    text(kNode - 30, rate > 0 ? formatString("%.4g GB/s each way", rate * 1000) : "no limit");
    text(kNode - 18, "sends " + bytesText(carried.sends));
    text(kNode - 6, "receives " + bytesText(carried.receives));
  }

  const Prediction& prediction_;
  const MachineModel& machine_;
  std::vector<Traffic> traffic_;
  int32_t drawn_;
  double highest_ = 0;
  SvgWriter svg_;
};

}  // namespace

Result<std::string> drawCluster(const Prediction& prediction) {
  HORING_ASSIGN(const FoldedNetwork network, FoldedNetwork::build(*prediction.schedules, prediction.folding));
  return ClusterPicture(prediction, network).draw();
}

}  // namespace horing
