#include "run_picture.h"

#include <algorithm>

#include "chart.h"
#include "common/quantity.h"
#include "common/svg.h"
#include "schedule/lane_name.h"
#include "sim/critical_path.h"
#include "units.h"

namespace horing {

namespace {

constexpr double kLeft = 310, kTop = 84, kWidth = 960, kRow = 17, kGap = 9, kFoot = 58;
constexpr double kTallest = 1600;
constexpr double kRoom = kTallest - kTop - kRow - kGap - kFoot;
// Adjacent bars of one kind are merged, and so are bars of several kinds that together are hardly wider than a line.
constexpr double kLeastGap = 0.6, kLeastBar = 1.5;
constexpr const char* kSeveral = "several steps";

constexpr const char* kStyle = R"(
text{font-size:11px}
.rank{font-weight:600}
.row{fill:#f6f7f9}
.far{fill:#c26a12}.near{fill:#2f6fc4}.core{fill:#23824a}.latency{fill:#b9c1cc}.credit{fill:#c43d2f}
@media (prefers-color-scheme:dark){.row{fill:#1b2027}
.far{fill:#eda055}.near{fill:#6ea6ef}.core{fill:#5fc687}.latency{fill:#4a5563}.credit{fill:#f0796c}}
)";

struct Bar {
  Picoseconds begin = 0, end = 0;
  const char* look = "";
  std::string what;
};

// "100 us": of a round time, without the zeros of timeText().
std::string tickText(Picoseconds time) {
  const double us = toMicroseconds(time);
  if (us >= 1e6) return formatString("%g s", us / 1e6);
  if (us >= 1e3) return formatString("%g ms", us / 1e3);
  return time == 0 ? "0" : us >= 1 ? formatString("%g us", us) : formatString("%g ns", us * 1e3);
}

class Picture {
 public:
  Picture(const Prediction& prediction, const FoldedNetwork& network, const PictureOptions& options)
      : prediction_(prediction),
        result_(prediction.result),
        network_(network),
        ranks_(std::min({options.ranks, network.folding().simulatedRanks(),
                         static_cast<int32_t>(kRoom / (network.lanesOfRank() * kRow + kGap))})),
        time_(std::max<Picoseconds>(prediction.result.time, 1)) {}

  std::string draw() {
    const double bottom = kTop + kRow + kGap + ranks_ * (network_.lanesOfRank() * kRow + kGap);
    drawHead(bottom);
    drawPath();
    collectMessages();
    collectSlices();
    for (int32_t rank = 0; rank < ranks_; ++rank)
      for (int32_t lane = 0; lane < network_.lanesOfRank(); ++lane) drawLane(rank, lane);
    drawLegend(bottom);
    return svg_.finish(kLeft + kWidth + 30, bottom + kFoot, title(), kStyle);
  }

 private:
  double x(Picoseconds at) const {
    return kLeft + kWidth * static_cast<double>(at) / static_cast<double>(time_);
  }
  double y(int32_t rank, int32_t lane) const {
    return kTop + kRow + kGap + rank * (network_.lanesOfRank() * kRow + kGap) + lane * kRow;
  }
  std::string title() const {
    const Question& q = prediction_.question;
    return formatString("%s %s of %s on %s: %s", q.algorithm.c_str(), collectiveName(q.collective),
                        sizeText(q.bytes).c_str(), shapeText(q.machine).c_str(),
                        timeText(result_.time).c_str());
  }

  void drawHead(double bottom) {
    svg_.text(20, 26, "title", title());
    std::string note =
        prediction_.folding.folds() ? "one node, for all do the same" : "every rank was simulated";
    if (ranks_ < network_.folding().simulatedRanks())
      note +=
          ranks_ == 1 ? "; the first rank is drawn" : formatString("; the first %d ranks are drawn", ranks_);
    if (prediction_.bound > 0) note += formatString("; %.3f x the wire bound", prediction_.overBound());
    svg_.text(20, 44, "note", note);
    for (const double tick : linearTicks(0, static_cast<double>(time_))) {
      const auto at = static_cast<Picoseconds>(tick);
      svg_.line(x(at), kTop - 8, x(at), bottom, "grid");
      svg_.text(x(at), kTop - 14, "tick", tickText(at), Anchor::kMiddle);
    }
  }

  void drawBar(const Bar& bar, double top, double height) {
    svg_.beginGroup(bar.what + ", " + timeText(bar.begin) + " to " + timeText(bar.end));
    svg_.rect(x(bar.begin), top, std::max(x(bar.end) - x(bar.begin), 0.4), height, bar.look);
    svg_.endGroup();
  }

  void drawPath() {
    svg_.text(20, kTop + 12, "rank", "critical path");
    svg_.rect(kLeft, kTop, kWidth, kRow - 2, "row");
    std::vector<Bar> bars;
    for (const PathSegment& segment : criticalPath(result_, network_)) {
      const char* look = segment.kind == PathSegment::Kind::kCore      ? "core"
                         : segment.kind == PathSegment::Kind::kCredit  ? "credit"
                         : segment.kind == PathSegment::Kind::kLatency ? "latency"
                         : segment.crosses_nodes                       ? "far"
                                                                       : "near";
      add(bars, {segment.begin, segment.end, look, look});
    }
    for (const Bar& bar : bars) drawBar(bar, kTop, kRow - 2);
  }

  // Merged with the previous bar if they cannot be distinguished.
  void add(std::vector<Bar>& bars, const Bar& bar) const {
    const bool follows =
        !bars.empty() && bars.back().look == bar.look && x(bar.begin) - x(bars.back().end) < kLeastGap;
    if (follows && bars.back().what == bar.what) {
      bars.back().end = std::max(bars.back().end, bar.end);
    } else if (follows && x(bar.end) - x(bars.back().begin) < kLeastBar) {
      bars.back().end = std::max(bars.back().end, bar.end);
      bars.back().what = kSeveral;
    } else if (bar.end > bar.begin) {
      bars.push_back(bar);
    }
  }

  void collectMessages() {
    bars_.resize(static_cast<size_t>(network_.lanes()));
    std::vector<Picoseconds> free(network_.wires().size(), 0);
    for (const MessageRecord& message : result_.message_records) {
      const Wire& wire = network_.wires()[static_cast<size_t>(message.wire)];
      Picoseconds& line_free = free[static_cast<size_t>(message.wire)];
      const Picoseconds begin = std::max(line_free, message.posted);
      line_free = message.left;
      const SliceRecord& sender = result_.slice_records[static_cast<size_t>(message.sender)];
      add(bars_[static_cast<size_t>(sender.lane_id)],
          {begin, message.left, wire.crosses_nodes ? "far" : "near",
           formatString("step %d, chunk %d, to rank %d", sender.step, sender.chunk, wire.to)});
    }
  }

  void collectSlices() {
    cores_.resize(static_cast<size_t>(network_.lanes()));
    for (const SliceRecord& slice : result_.slice_records)
      add(cores_[static_cast<size_t>(slice.lane_id)],
          {slice.ready, slice.end, "core", formatString("step %d, chunk %d", slice.step, slice.chunk)});
  }

  std::string laneText(int32_t rank, int32_t lane) const {
    const Schedule& schedule = network_.schedules()[static_cast<size_t>(rank)];
    if (static_cast<size_t>(lane) >= schedule.lanes.size()) return "";
    return laneName(schedule, static_cast<size_t>(lane),
                    [this](int32_t position) { return network_.folding().nodeOf(position); });
  }

  void drawLane(int32_t rank, int32_t lane) {
    const double top = y(rank, lane);
    if (lane == 0)
      svg_.text(20, top + 12, "rank",
                formatString("node %d, rank %d", network_.folding().nodeOf(rank), rank));
    svg_.text(kLeft - 8, top + 12, "note", laneText(rank, lane), Anchor::kEnd);
    svg_.rect(kLeft, top, kWidth, kRow - 2, "row");
    const auto id = static_cast<size_t>(network_.laneId(rank, lane));
    for (const Bar& bar : bars_[id]) drawBar(bar, top, kRow - 6);
    for (const Bar& bar : cores_[id]) drawBar(bar, top + kRow - 6, 4);
  }

  void drawLegend(double bottom) {
    double at = 20;
    for (const auto& [look, text] : {std::pair{"far", "on a line between nodes, or waiting for it"},
                                     {"near", "inside a node"},
                                     {"core", "computing, or waiting for a core"},
                                     {"latency", "latency"},
                                     {"credit", "waiting for a free slot"}}) {
      svg_.rect(at, bottom + 16, 14, 10, look);
      svg_.text(at + 20, bottom + 25, "note", text);
      at += 52 + 6.2 * static_cast<double>(std::string_view(text).size());
    }
  }

  const Prediction& prediction_;
  const SimulationResult& result_;
  const FoldedNetwork& network_;
  int32_t ranks_;
  Picoseconds time_;
  std::vector<std::vector<Bar>> bars_, cores_;  // by lane
  SvgWriter svg_;
};

}  // namespace

Result<std::string> drawRun(const Prediction& prediction, const PictureOptions& options) {
  HORING_ASSIGN(const FoldedNetwork network, FoldedNetwork::build(*prediction.schedules, prediction.folding));
  return Picture(prediction, network, options).draw();
}

}  // namespace horing
