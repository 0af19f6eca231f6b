#include "lane_diagram.h"

#include <algorithm>

#include "common/svg.h"
#include "excerpt.h"
#include "schedule/lane_name.h"

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
.tight{font-size:7.5px}
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

constexpr double kLeft = 210, kTop = 80, kRight = 24, kRow = 46, kBox = 36, kRankGap = 14, kLegend = 84;
constexpr double kNarrowest = 920, kWidest = 1600;  // of a picture
constexpr double kTallest = 1600;
constexpr double kBandGap = 40;                      // with the ticks of the next band
constexpr double kNote = 14;                         // a line of notes
constexpr size_t kNotesAbove = 2;                    // as many have room above the first band
constexpr double kLetter = 5.8, kTightLetter = 4.6;  // widths in a box

// UTF-8.
bool beginsLetter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

size_t lettersOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), beginsLetter));
}

std::string firstLetters(std::string_view text, size_t letters) {
  size_t end = 0;
  for (; end < text.size(); ++end)
    if (beginsLetter(text[end]) && letters-- == 0) break;
  return std::string(text.substr(0, end));
}

class Diagram {
 public:
  Diagram(std::span<const Schedule> all_ranks, const Timeline& timeline, const DiagramOptions& options)
      : schedules_(all_ranks),
        timeline_(timeline),
        options_(options),
        column_(options.position >= 0 ? 97 : 105),
        per_band_(static_cast<int32_t>((kWidest - kLeft - kRight) / column_)) {}

  Result<std::string> draw() {
    if (options_.position >= static_cast<int32_t>(schedules_.size()))
      return makeStatus(Code::kInvalidArgument, "there is no position %d among %zu", options_.position,
                        schedules_.size());
    excerpt_ = chooseExcerpt({schedules_, timeline_, options_.position,
                              [&](const Event& event) {
                                return formatString("%s %d", kindOf(*event.step),
                                                    leavesGroup(*event.step, event.position));
                              },
                              [&](const Excerpt& tried) { return heightOf(tried) <= kTallest; }});
    top_ = topOf(excerpt_.notes.size());
    placeRows();
    drawFrame();
    for (const Dependence& dependence : timeline_.dependences) drawDependence(dependence);
    for (const Event& event : timeline_.events)
      if (excerpt_.draws(event)) drawStep(event);
    drawLegend();
    return svg_.finish(width(), bottom_ + kLegend, title(), kStyle);
  }

 private:
  const Rails& rails() const { return options_.rails; }
  int32_t groupOf(int32_t position) const {
    return rails() ? rails().groupOf(position) : position / std::max(options_.members, 1);
  }
  int32_t localOf(int32_t position) const {
    return rails() ? position - rails().firstOf(groupOf(position)) : position % std::max(options_.members, 1);
  }

  // Columns are cut into bands, one below the other.
  int32_t columns() const { return static_cast<int32_t>(excerpt_.times.size()); }
  int32_t bandsOf(const Excerpt& excerpt) const {
    return std::max((static_cast<int32_t>(excerpt.times.size()) + per_band_ - 1) / per_band_, 1);
  }
  int32_t bandOf(int32_t time) const { return excerpt_.column(time) / per_band_; }
  int32_t bandEnd(int32_t band) const { return std::min((band + 1) * per_band_, columns()); }
  double bandTop(int32_t band) const { return band * (band_height_ + kBandGap); }
  double xOfColumn(int32_t column) const { return kLeft + column % per_band_ * column_; }
  double x(int32_t time) const { return xOfColumn(excerpt_.column(time)); }
  double rightOf(int32_t band) const { return kLeft + (bandEnd(band) - band * per_band_) * column_; }
  static double topOf(size_t notes) {
    return kTop + kNote * static_cast<double>(std::max(notes, kNotesAbove) - kNotesAbove);
  }
  static double rowsHeight(const Excerpt& excerpt) {
    double height = 0;
    for (const int32_t rows : excerpt.row_counts) height += rows > 0 ? rows * kRow + kRankGap : 0;
    return height;
  }
  double heightOf(const Excerpt& excerpt) const {
    const int32_t bands = bandsOf(excerpt);
    const double top = topOf(excerpt.notes.size() + 1);  // with a note on what is cut
    return top + bands * rowsHeight(excerpt) + (bands - 1) * kBandGap + kLegend;
  }
  double width() const { return std::max(rightOf(0) + kRight, kNarrowest); }
  // Between a box and its column's edge; wider where messages run between the columns.
  double gap() const { return options_.position >= 0 ? 9 : 14; }
  double y(const Event& event) const {
    return row_[static_cast<size_t>(event.position)] + excerpt_.row(event) * kRow +
           bandTop(bandOf(event.start));
  }

  std::string title() const {
    const Schedule& schedule = schedules_[0];
    const int32_t groups = groupOf(schedule.ranks - 1) + 1;
    std::string text = formatString("%s %s, %d group%s of %s%d", schedule.algorithm.c_str(),
                                    collectiveName(schedule.collective), groups, groups == 1 ? "" : "s",
                                    rails() ? "up to " : "", std::max(options_.members, 1));
    if (options_.position >= 0) text += ", " + rankName(options_.position);
    return text;
  }

  std::string rankName(int32_t position) const {
    return formatString("position %d = (%d,%d)", position, groupOf(position), localOf(position));
  }

  std::string chunkName(int32_t chunk) const {
    const Grid& grid = schedules_[0].grid;
    return grid.rows > 1 ? formatString("%d,%d", chunk / grid.columns, chunk % grid.columns)
                         : formatString("%d", chunk);
  }

  void placeRows() {
    double at = top_;
    for (const int32_t rows : excerpt_.row_counts) {
      row_.push_back(at);
      if (rows > 0) at += rows * kRow + kRankGap;
    }
    band_height_ = at - top_;
    bottom_ = at + bandTop(bandsOf(excerpt_) - 1);
  }

  bool leavesGroup(const Step& step, int32_t position) const {
    return horing::leavesGroup(step, position, [this](int32_t other) { return groupOf(other); });
  }

  void drawFrame() {
    const double line = top_ - 50;
    svg_.text(20, line, "title", title());
    svg_.text(20, line + 19, "note",
              "one column is one unit of time, each step takes one; chunks are numbered " +
                  std::string(schedules_[0].grid.rows > 1 ? "row,column (row = group they belong to)"
                                                          : "by position"));
    double at = line - kNote * (static_cast<double>(excerpt_.notes.size()) - 1);
    for (const std::string& note : excerpt_.notes) {
      svg_.text(width() - kRight, at, "note", note, Anchor::kEnd);
      at += kNote;
    }
    for (int32_t band = 0; band < bandsOf(excerpt_); ++band) drawBand(band);
  }

  void drawBand(int32_t band) {
    const double down = bandTop(band);
    for (const Schedule& schedule : schedules_) {
      const auto position = static_cast<size_t>(schedule.position);
      if (!excerpt_.draws(schedule.position)) continue;
      const double top = row_[position] + down;
      const double height = excerpt_.row_counts[position] * kRow;
      if (groupOf(schedule.position) % 2 == 0)
        svg_.rect(12, top - kRankGap / 2, rightOf(band) - 8, height + kRankGap, "band");
      for (size_t lane = 0; lane < schedule.lanes.size(); ++lane)
        if (const int32_t row = excerpt_.rows[position][lane]; row >= 0)
          drawLaneLabel(schedule, lane, row == 0, top + row * kRow);
    }
    for (int32_t column = band * per_band_; column <= bandEnd(band); ++column) {
      const double at = column == bandEnd(band) ? rightOf(band) : xOfColumn(column);
      svg_.line(at, top_ - 8 + down, at, top_ + band_height_ - kRankGap / 2 + down, "grid");
      if (column < bandEnd(band)) drawTick(column, at, top_ - 12 + down);
    }
  }

  void drawTick(int32_t column, double at, double down) {
    const int32_t time = excerpt_.times[static_cast<size_t>(column)];
    svg_.text(at + column_ / 2, down, "tick", std::to_string(time), Anchor::kMiddle);
    if (column > 0 && time != excerpt_.times[static_cast<size_t>(column) - 1] + 1)
      svg_.text(at, down, "tick", "⋯", Anchor::kMiddle);
  }

  void drawLaneLabel(const Schedule& schedule, size_t lane, bool is_first, double top) {
    if (is_first) svg_.text(20, top + kBox / 2 - 3, "rank", rankName(schedule.position));
    svg_.text(20, top + kBox / 2 + 11, "note",
              laneName(schedule, lane, [this](int32_t position) { return groupOf(position); }));
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
    if (received > 2) text = formatString("%d×→", received);
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
    drawWhat(left + width / 2, top + 29, whatOf(*event.step), far);
    svg_.endGroup();
  }

  // Smaller, then cut, where it is wider than its box: the tooltip has all.
  void drawWhat(double middle, double y, std::string text, bool far) {
    const double room = column_ - 2 * gap() - 2;
    const bool is_tight = static_cast<double>(lettersOf(text)) * kLetter > room;
    const auto most = static_cast<size_t>(room / kTightLetter);
    if (lettersOf(text) > most) text = firstLetters(text, most - 1) + "…";
    svg_.text(middle, y, std::string("what") + (is_tight ? " tight" : "") + (far ? " on-far" : ""), text,
              Anchor::kMiddle);
  }

  void drawDependence(const Dependence& dependence) {
    const Event& from = timeline_.events[dependence.from];
    const Event& to = timeline_.events[dependence.to];
    if (!excerpt_.draws(from) || !excerpt_.draws(to)) return;
    std::string css_class = dependence.kind == Dependence::Kind::kWait      ? "wait"
                            : dependence.kind == Dependence::Kind::kScratch ? "scratch"
                                                                            : "message";
    if (groupOf(from.position) != groupOf(to.position)) css_class += " crossing";
    // Arrivals a little apart, so that a wait and a message at one step can be told from each other.
    const double arrival = dependence.kind == Dependence::Kind::kMessage ? kBox * 0.62 : kBox * 0.3;
    const double begin = x(from.start) + column_ - gap(), end = x(to.start) + gap();
    const double leaves = y(from) + kBox / 2, arrives = y(to) + arrival;
    if (excerpt_.column(to.start) <= excerpt_.column(from.start) + 1 &&
        bandOf(from.start) == bandOf(to.start))
      return svg_.arrow(begin, leaves, end, arrives, css_class);
    // Past other boxes, in the strip between two rows: above the row where it ends, and below the one where it leaves a band.
    const double strip = (kRow - kBox) / 2, above = y(to) - strip, below = y(from) + kBox + strip;
    const double tip = end - 5, out = begin + gap() / 2, in = end - gap() * 0.8;  // tip: as arrow() has it
    using Points = std::vector<std::pair<double, double>>;
    if (bandOf(from.start) == bandOf(to.start))
      return svg_.bentArrow(
          Points{{begin, leaves}, {out, leaves}, {out, above}, {in, above}, {in, arrives}, {tip, arrives}},
          css_class);
    const double edge = rightOf(bandOf(from.start)) + kRight / 2;
    svg_.bentArrow(Points{{begin, leaves}, {out, leaves}, {out, below}, {edge, below}}, css_class);
    svg_.bentArrow(Points{{kLeft - kRight / 2, above}, {in, above}, {in, arrives}, {tip, arrives}},
                   css_class);
  }

  void drawLegend() {
    const double top = bottom_ + 12;
    svg_.line(20, bottom_ - 2, width() - 20, bottom_ - 2, "rule");
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
    svg_.text(
        20, top + 60, "note",
        "in a box: the chunk; 3→ from position 3, 7×→ from 7 positions, in, out or q0 (scratch queue 0) "
        "folded, ▸out kept in out, →1 sent to position 1");
  }

  std::span<const Schedule> schedules_;
  const Timeline& timeline_;
  DiagramOptions options_;
  double column_;
  int32_t per_band_;  // columns
  Excerpt excerpt_;
  double top_ = kTop;  // of the first band
  double band_height_ = 0;
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
