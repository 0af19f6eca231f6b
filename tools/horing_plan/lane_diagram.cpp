#include "lane_diagram.h"

#include <algorithm>

#include "common/svg.h"

namespace horing {

namespace {

// Hue says what a step does; a full box crosses groups, a pale one stays inside, a grey one stays in the rank.
constexpr const char* kStyle = R"(
text{font-size:11px}
.rank{font-weight:600}
.tick{fill:#7b8694;font-size:10px}
.rule{stroke:#c3cad3;stroke-width:1}
.band{fill:#f6f7f9}
.step{rx:5px;stroke-width:1.3}
.send{fill:#dbe9fb;stroke:#2f6fc4}
.fold{fill:#fde6cd;stroke:#c26a12}
.pass{fill:#d8f0df;stroke:#23824a}
.local{fill:#e9ebef;stroke:#7b8694}
.send.far{fill:#2f6fc4;stroke:#1d4c8c}
.fold.far{fill:#c26a12;stroke:#8a4a0a}
.pass.far{fill:#23824a;stroke:#155c32}
.chunk{font-weight:600;font-size:12px}
.what{font-size:9.5px}
.on-far{fill:#ffffff}
.arrow{fill:none;stroke:#5a6675;stroke-width:1.1;stroke-opacity:0.75}
.head{fill:#5a6675}
.wait{stroke-dasharray:4 3}
.scratch{stroke-dasharray:1.5 2.5}
.crossing{stroke-width:2.4}
@media (prefers-color-scheme:dark){.tick{fill:#7d8896}
.rule{stroke:#3b4552}
.band{fill:#181d25}
.send{fill:#1b3152;stroke:#6ea6ef}
.fold{fill:#43290d;stroke:#eda055}
.pass{fill:#143822;stroke:#5fc687}
.local{fill:#2a313b;stroke:#8b96a4}
.send.far{fill:#6ea6ef;stroke:#b3d1fa}
.fold.far{fill:#eda055;stroke:#fbd3a6}
.pass.far{fill:#5fc687;stroke:#b0e8c6}
.on-far{fill:#0d1117}
.arrow{stroke:#9aa5b3}
.head{fill:#9aa5b3}
}
)";

constexpr double kLeft = 168, kTop = 74, kRight = 24, kRow = 46, kBox = 36, kRankGap = 14, kLegend = 84;

class Diagram {
 public:
  Diagram(std::span<const Schedule> all_ranks, const Timeline& timeline, const DiagramOptions& options)
      : schedules_(all_ranks),
        timeline_(timeline),
        options_(options),
        column_(options.position >= 0 ? 98 : 106) {}

  Result<std::string> draw() {
    if (options_.position >= static_cast<int32_t>(schedules_.size()))
      return makeStatus(Code::kInvalidArgument, "there is no position %d among %zu", options_.position,
                        schedules_.size());
    size_t drawn = 0;
    for (const Event& event : timeline_.events) {
      if (!isDrawn(event.position)) continue;
      ++drawn;
      begin_ = std::min(begin_, event.start);
      end_ = std::max(end_, event.start + 1);
    }
    if (drawn > kMaxDrawnSteps)
      return makeStatus(Code::kInvalidArgument,
                        "%zu steps do not make a picture, at most %zu do; draw one position", drawn,
                        kMaxDrawnSteps);
    begin_ = std::min(begin_, end_);
    placeRows();
    drawFrame();
    for (const Dependence& dependence : timeline_.dependences) drawDependence(dependence);
    for (const Event& event : timeline_.events)
      if (isDrawn(event.position)) drawStep(event);
    drawLegend();
    const double width = std::max(x(end_) + kRight, 920.0);
    return svg_.finish(width, bottom_ + kLegend, title(), kStyle);
  }

 private:
  bool isDrawn(int32_t position) const { return options_.position < 0 || options_.position == position; }
  int32_t groupOf(int32_t position) const { return position / std::max(options_.members, 1); }
  double x(int32_t time) const { return kLeft + (time - begin_) * column_; }
  // Between a box and its column's edge; wider where messages run between the columns.
  double gap() const { return options_.position >= 0 ? 9 : 14; }
  double y(const Event& event) const { return row_[static_cast<size_t>(event.position)] + event.lane * kRow; }

  std::string title() const {
    const Schedule& schedule = schedules_[0];
    const int32_t groups = groupOf(schedule.ranks - 1) + 1;
    std::string text = formatString("%s %s, %d group%s of %d", schedule.algorithm.c_str(),
                                    collectiveName(schedule.collective), groups, groups == 1 ? "" : "s",
                                    std::max(options_.members, 1));
    if (options_.position >= 0) text += ", " + rankName(options_.position);
    return text;
  }

  std::string rankName(int32_t position) const {
    return formatString("position %d = (%d,%d)", position, groupOf(position),
                        position % std::max(options_.members, 1));
  }

  std::string chunkName(int32_t chunk) const {
    const Grid& grid = schedules_[0].grid;
    return grid.rows > 1 ? formatString("%d,%d", chunk / grid.columns, chunk % grid.columns)
                         : formatString("%d", chunk);
  }

  void placeRows() {
    double at = kTop;
    row_.resize(schedules_.size());
    for (const Schedule& schedule : schedules_) {
      row_[static_cast<size_t>(schedule.position)] = at;
      if (isDrawn(schedule.position)) at += static_cast<double>(schedule.lanes.size()) * kRow + kRankGap;
    }
    bottom_ = at;
  }

  bool leavesGroup(const Step& step, int32_t position) const {
    if (step.send_to >= 0 && groupOf(step.send_to) != groupOf(position)) return true;
    const auto isFar = [&](int32_t peer) { return groupOf(peer) != groupOf(position); };
    return std::any_of(step.signal_to.begin(), step.signal_to.end(), isFar) ||
           std::any_of(step.sources.begin(), step.sources.end(),
                       [&](const Source& source) { return namesPeer(source) && isFar(source.index); });
  }

  void drawFrame() {
    svg_.text(20, 30, "title", title());
    svg_.text(20, 49, "note",
              "one column is one unit of time, each step takes one; chunks are numbered " +
                  std::string(schedules_[0].grid.rows > 1 ? "row,column (row = group they belong to)"
                                                          : "by position"));
    for (const Schedule& schedule : schedules_) {
      if (!isDrawn(schedule.position)) continue;
      const double top = row_[static_cast<size_t>(schedule.position)];
      const double height = static_cast<double>(schedule.lanes.size()) * kRow;
      if (groupOf(schedule.position) % 2 == 0)
        svg_.rect(12, top - kRankGap / 2, x(end_) - 8, height + kRankGap, "band");
      for (size_t lane = 0; lane < schedule.lanes.size(); ++lane)
        drawLaneLabel(schedule, lane, top + static_cast<double>(lane) * kRow);
    }
    for (int32_t time = begin_; time <= end_; ++time) {
      svg_.line(x(time), kTop - 8, x(time), bottom_ - kRankGap / 2, "grid");
      if (time < end_)
        svg_.text(x(time) + column_ / 2, kTop - 12, "tick", std::to_string(time), Anchor::kMiddle);
    }
  }

  void drawLaneLabel(const Schedule& schedule, size_t lane, double top) {
    bool far = false, near = false;
    for (const Block& block : schedule.lanes[lane].blocks)
      for (const Step& step : block.body) (leavesGroup(step, schedule.position) ? far : near) = true;
    const char* where = far && near ? "in and between groups" : far ? "between groups" : "inside the group";
    if (lane == 0) {
      svg_.text(20, top + kBox / 2 - 3, "rank", rankName(schedule.position));
    }
    svg_.text(20, top + kBox / 2 + 11, "note", formatString("lane %zu, %s", lane, where));
  }

  static bool namesPeer(const Source& source) {
    return takesMessage(source) || source.kind == Source::Kind::kPeerIn;
  }

  static const char* kindOf(const Step& step) {
    if (step.isSignal()) return step.signal_to.empty() ? "pass" : "send";
    const bool receives = std::any_of(step.sources.begin(), step.sources.end(), [](const Source& source) {
      return source.kind == Source::Kind::kRecv;
    });
    if (step.sources.size() > 1) return "fold";
    if (receives) return "pass";
    return step.send_to >= 0 ? "send" : "local";
  }

  // "3→ + in → out, 1"
  static std::string whatOf(const Step& step) {
    std::string text;
    if (step.isSignal()) {
      if (!step.sources.empty()) text = formatString("await %zu", step.sources.size());
      if (!step.signal_to.empty()) text += formatString("signal %zu", step.signal_to.size());
      return text;
    }
    int received = 0;
    for (const Source& source : step.sources) received += source.kind == Source::Kind::kRecv;
    if (received > 2) text = formatString("%d ranks→", received);
    for (const Source& source : step.sources) {
      const bool receives = source.kind == Source::Kind::kRecv;
      if (receives && received > 2) continue;
      if (!text.empty()) text += "+";
      if (receives) text += formatString("%d→", source.index);
      if (source.kind == Source::Kind::kIn) text += "in";
      if (source.kind == Source::Kind::kPeerIn) text += formatString("in of %d", source.index);
      if (source.kind == Source::Kind::kOut) text += "out";
      if (source.kind == Source::Kind::kScratch) text += formatString("q%d", source.index);
    }
    if (keepsOut(step.keep)) text += " ▸out";
    if (step.keep.kind == Keep::Kind::kEveryOut) text += " of all";
    if (step.keep.kind == Keep::Kind::kScratch) text += formatString(" ▸q%d", step.keep.index);
    if (step.send_to >= 0) text += formatString(" →%d", step.send_to);
    return text;
  }

  void drawStep(const Event& event) {
    const bool far = leavesGroup(*event.step, event.position);
    const double left = x(event.start) + gap(), top = y(event), width = column_ - 2 * gap();
    svg_.beginGroup(stepName(schedules_[static_cast<size_t>(event.position)], event.lane, event.index) +
                    ": chunk " + chunkName(event.chunk) + ", " + whatOf(*event.step) +
                    (event.step->completes ? ", completes it" : ""));
    svg_.rect(left, top, width, kBox, std::string("step ") + kindOf(*event.step) + (far ? " far" : ""));
    svg_.text(left + width / 2, top + 15, far ? "chunk on-far" : "chunk", chunkName(event.chunk),
              Anchor::kMiddle);
    svg_.text(left + width / 2, top + 29, far ? "what on-far" : "what", whatOf(*event.step), Anchor::kMiddle);
    svg_.endGroup();
  }

  void drawDependence(const Dependence& dependence) {
    const Event& from = timeline_.events[dependence.from];
    const Event& to = timeline_.events[dependence.to];
    if (!isDrawn(from.position) || !isDrawn(to.position)) return;
    std::string css_class = dependence.kind == Dependence::Kind::kWait      ? "wait"
                            : dependence.kind == Dependence::Kind::kScratch ? "scratch"
                                                                            : "message";
    if (groupOf(from.position) != groupOf(to.position)) css_class += " crossing";
    // Arrivals a little apart, so that a wait and a message at one step can be told from each other.
    const double arrival = dependence.kind == Dependence::Kind::kMessage ? kBox * 0.62 : kBox * 0.3;
    svg_.arrow(x(from.start + 1) - gap(), y(from) + kBox / 2, x(to.start) + gap(), y(to) + arrival,
               css_class);
  }

  void drawLegend() {
    const double top = bottom_ + 12;
    svg_.line(20, bottom_ - 2, std::max(x(end_) + kRight, 920.0) - 20, bottom_ - 2, "rule");
    struct Entry {
      const char* css_class;
      const char* text;
    };
    double at = 20;
    for (const Entry& entry : {Entry{"step send", "send own"},
                               {"step fold", "fold"},
                               {"step pass", "receive, pass on"},
                               {"step local", "inside the rank"},
                               {"step fold far", "full colour: between groups"}}) {
      svg_.rect(at, top, 22, 14, entry.css_class);
      svg_.text(at + 28, top + 11, "note", entry.text);
      at += 46 + 6.4 * static_cast<double>(std::string_view(entry.text).size());
    }
    at = 20;
    for (const Entry& entry : {Entry{"message", "message"},
                               {"message crossing", "message between groups"},
                               {"wait", "wait"},
                               {"scratch", "hand-over in scratch"}}) {
      svg_.arrow(at, top + 32, at + 34, top + 32, entry.css_class);
      svg_.text(at + 40, top + 36, "note", entry.text);
      at += 58 + 6.4 * static_cast<double>(std::string_view(entry.text).size());
    }
    svg_.text(20, top + 60, "note",
              "in a box: the chunk; 3→ from position 3, in, out or q0 (scratch queue 0) folded, ▸out kept in "
              "out, →1 sent to position 1");
  }

  std::span<const Schedule> schedules_;
  const Timeline& timeline_;
  DiagramOptions options_;
  double column_;
  int32_t begin_ = INT32_MAX, end_ = 0;
  std::vector<double> row_;  // top of the first lane of each position
  double bottom_ = 0;
  SvgWriter svg_;
};

}  // namespace

Result<std::string> drawLanes(std::span<const Schedule> all_ranks, const Timeline& timeline,
                              const DiagramOptions& options) {
  return Diagram(all_ranks, timeline, options).draw();
}

}  // namespace horing
