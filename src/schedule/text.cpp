#include "schedule/text.h"

#include <algorithm>
#include <charconv>

#include "base/printable.h"
#include "schedule/network.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

constexpr size_t kCommentColumn = 48;

std::string sourceText(const Source& source) {
  switch (source.kind) {
    case Source::Kind::kRecv:
      return formatString("recv %d", source.index);
    case Source::Kind::kIn:
      return "in";
    case Source::Kind::kOut:
      return "out";
    case Source::Kind::kScratch:
      return formatString("scratch %d", source.index);
    case Source::Kind::kPeerIn:
      return formatString("in of %d", source.index);
    case Source::Kind::kSignal:
      return formatString("signal of %d", source.index);
  }
  return "?";
}

std::string waitText(const Wait& wait) {
  if (wait.lane == -1) return "";
  std::string text = formatString(" after lane %d step %d", wait.lane, wait.step);
  if (wait.stride != 0) text += formatString(" stride %d", wait.stride);
  return text;
}

// "await 1 2 signal 3".
std::string signalText(const Step& step) {
  std::string text = "   ";
  if (!step.sources.empty()) text += " await";
  for (const Source& source : step.sources) text += formatString(" %d", source.index);
  if (!step.signal_to.empty()) text += " signal";
  for (const int32_t peer : step.signal_to) text += formatString(" %d", peer);
  return text + waitText(step.wait) + "\n";
}

std::string stepText(const Step& step) {
  if (step.isSignal()) return signalText(step);
  std::string text = formatString("    chunk %d =", step.chunk);
  for (size_t i = 0; i < step.sources.size(); ++i)
    text += (i == 0 ? " " : " + ") + sourceText(step.sources[i]);
  if (step.completes) text += ", complete";
  const bool keeps = step.keep.kind != Keep::Kind::kNone;
  if (keeps || step.send_to != -1) text += " ->";
  if (keepsOut(step.keep)) text += " out";
  if (step.keep.kind == Keep::Kind::kEveryOut) text += " of all";
  if (step.keep.kind == Keep::Kind::kScratch) text += formatString(" scratch %d", step.keep.index);
  if (step.send_to != -1) text += formatString("%s send %d", keeps ? "," : "", step.send_to);
  return text + waitText(step.wait) + "\n";
}

std::string blockText(const Block& block, int64_t first_step) {
  std::string text = "  once";
  if (block.count != 1 || block.row_stride != 0 || block.column_stride != 0)
    text = formatString("  repeat %d stride %d %d", block.count, block.row_stride, block.column_stride);
  text.resize(std::max(text.size() + 2, kCommentColumn), ' ');
  const int64_t steps = static_cast<int64_t>(block.body.size()) * std::max(block.count, 0);
  if (steps == 0) return text + "# no step\n";
  if (steps == 1) return text + formatString("# step %lld\n", static_cast<long long>(first_step));
  return text + formatString("# steps %lld to %lld\n", static_cast<long long>(first_step),
                             static_cast<long long>(first_step + steps - 1));
}

std::string groupsText(const Rails& rails) {
  std::string text = rails ? " groups" : "";
  for (const int32_t size : rails.sizes()) text += formatString(" %d", size);
  return text;
}

std::string sharesText(const Shares& shares) {
  std::string text = shares ? " shares" : "";
  for (const int32_t part : shares.parts()) text += formatString(" %d", part);
  return text;
}

std::string rootText(const Schedule& schedule) {
  return hasRoot(schedule.collective) || schedule.root != 0 ? formatString(" root %d", schedule.root) : "";
}

// Reads tokens of one line: words, numbers and the marks = + , ->. Columns are counted from 1.
class LineReader {
 public:
  LineReader(std::string_view line, size_t number) : line_(line.substr(0, line.find('#'))), number_(number) {
    skip();
  }

  bool atEnd() const { return at_ == line_.size(); }

  bool at(std::string_view token) const { return next() == token; }
  bool atNumber() const { return !atEnd() && (isDigit(line_[at_]) || line_[at_] == '-'); }

  // Takes `token` if it is next.
  bool take(std::string_view token) {
    if (next() != token) return false;
    advance(token.size());
    return true;
  }

  Status expect(std::string_view token) {
    return take(token) ? Status()
                       : wrong(formatString("expected '%.*s'", static_cast<int>(token.size()), token.data()));
  }

  Status number(const char* what, int32_t& value) {
    const std::string_view token = next();
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc() || end != token.data() + token.size())
      return wrong(formatString("expected %s, a number", what));
    advance(token.size());
    return {};
  }

  Status word(const char* what, std::string& value) {
    const std::string_view token = next();
    if (token.empty() || token.size() > kMaxNameBytes || !isWord(token[0]))
      return wrong(formatString("expected %s of at most %zu letters", what, kMaxNameBytes));
    value = token;
    advance(token.size());
    return {};
  }

  Status end() const { return atEnd() ? Status() : wrong("expected the end of the line"); }

  Status wrong(const std::string& what) const {
    const std::string found = atEnd() ? "the line ends" : "found '" + printable(next(), 40) + "'";
    return makeStatus(Code::kInvalidArgument, "line %zu, column %zu: %s, but %s", number_, at_ + 1,
                      what.c_str(), found.c_str());
  }

 private:
  static bool isWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  }
  static bool isDigit(char c) { return c >= '0' && c <= '9'; }
  static bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  // The next token; empty at the end. "->" and a run of word characters are one token, anything else is one character.
  std::string_view next() const {
    const std::string_view rest = line_.substr(at_);
    if (rest.starts_with("->")) return rest.substr(0, 2);
    size_t length = 0;
    while (length < rest.size() && isWord(rest[length]) && !rest.substr(length).starts_with("->")) ++length;
    return rest.substr(0, std::max<size_t>(length, 1));
  }
  void advance(size_t bytes) {
    at_ += bytes;
    skip();
  }
  void skip() {
    while (at_ < line_.size() && isSpace(line_[at_])) ++at_;
  }

  std::string_view line_;
  size_t number_;
  size_t at_ = 0;
};

class Parser {
 public:
  Result<std::vector<Schedule>> parse(std::string_view text) {
    if (text.size() > kMaxTextBytes)
      return makeStatus(Code::kInvalidArgument, "a text of %zu bytes; at most %zu are read", text.size(),
                        kMaxTextBytes);
    size_t number = 0;
    while (!text.empty()) {
      const size_t length = std::min(text.find('\n'), text.size());
      LineReader line(text.substr(0, length), ++number);
      if (!line.atEnd()) HORING_TRY(parseLine(line));
      text.remove_prefix(std::min(length + 1, text.size()));
    }
    return std::move(schedules_);
  }

 private:
  Status parseLine(LineReader& line) {
    if (line.take("schedule")) return parseHeader(line);
    if (schedules_.empty()) return line.wrong("expected 'schedule'");
    if (line.take("lane")) return parseLane(line);
    std::vector<Lane>& lanes = schedules_.back().lanes;
    if (lanes.empty()) return line.wrong("expected 'lane'");
    if (line.take("once")) {
      lanes.back().blocks.emplace_back();
      return line.end();
    }
    if (line.take("repeat")) return parseRepeat(line);
    if (lanes.back().blocks.empty()) return line.wrong("expected 'once' or 'repeat'");
    std::vector<Step>& body = lanes.back().blocks.back().body;
    if (line.take("chunk")) return parseStep(line, body.emplace_back());
    if (line.at("await") || line.at("signal")) return parseSignal(line, body.emplace_back());
    return line.wrong("expected 'chunk', 'await', 'signal', 'once', 'repeat', 'lane' or 'schedule'");
  }

  Status parseHeader(LineReader& line) {
    Schedule& schedule = schedules_.emplace_back();
    HORING_TRY(line.word("the name of the algorithm", schedule.algorithm));
    HORING_TRY(parseCollective(line, schedule.collective));
    if (line.take("root")) HORING_TRY(line.number("the position of the root", schedule.root));
    HORING_TRY(line.expect("position"));
    HORING_TRY(line.number("the position", schedule.position));
    HORING_TRY(line.expect("of"));
    HORING_TRY(line.number("how many ranks there are", schedule.ranks));
    HORING_TRY(line.expect("grid"));
    HORING_TRY(line.number("the rows of the grid", schedule.grid.rows));
    HORING_TRY(line.expect("x"));
    HORING_TRY(line.number("the columns of the grid", schedule.grid.columns));
    HORING_TRY(line.expect("scratch"));
    HORING_TRY(line.number("how many scratch queues there are", schedule.scratch_queues));
    if (line.take("groups")) HORING_TRY(parseGroups(line, schedule.rails));
    if (line.take("shares")) HORING_TRY(parseShares(line, schedule.shares));
    return line.end();
  }

  static Status parseGroups(LineReader& line, Rails& rails) {
    std::vector<int32_t> sizes;
    int64_t ranks = 0;
    do {
      HORING_TRY(line.number("the size of a group", sizes.emplace_back()));
      ranks += sizes.back();
      if (sizes.back() < 1 || ranks > kMaxVerifiedRanks)
        return makeStatus(Code::kInvalidArgument, "groups of 1 to %d ranks, all together, are possible",
                          kMaxVerifiedRanks);
    } while (line.atNumber());
    rails = Rails(std::move(sizes));
    return {};
  }

  static Status parseShares(LineReader& line, Shares& shares) {
    std::vector<int32_t> parts;
    do {
      HORING_TRY(line.number("the share of a row", parts.emplace_back()));
    } while (line.atNumber());
    if (!Shares::areValid(parts))
      return makeStatus(Code::kInvalidArgument, "the shares of all rows together are %d", Shares::kWhole);
    shares = Shares(std::move(parts));
    return {};
  }

  static Status parseCollective(LineReader& line, Collective& collective) {
    for (int i = 0; i < kCollectives; ++i) {
      collective = static_cast<Collective>(i);
      if (line.take(collectiveName(collective))) return {};
    }
    std::string names;
    for (int i = 0; i < kCollectives; ++i)
      names += (i == 0                  ? ""
                : i == kCollectives - 1 ? " or "
                                        : ", ") +
               std::string(collectiveName(static_cast<Collective>(i)));
    return line.wrong("expected " + names);
  }

  Status parseLane(LineReader& line) {
    int32_t number = 0;
    const int32_t due = static_cast<int32_t>(schedules_.back().lanes.size());
    LineReader before = line;
    HORING_TRY(line.number("the number of the lane", number));
    if (number != due)
      return before.wrong(formatString("expected lane %d, for lanes are listed in order", due));
    if (due == kMaxLanes) return before.wrong(formatString("expected at most %d lanes", kMaxLanes));
    schedules_.back().lanes.emplace_back();
    return line.end();
  }

  Status parseRepeat(LineReader& line) {
    Block& block = schedules_.back().lanes.back().blocks.emplace_back();
    HORING_TRY(line.number("how often the block repeats", block.count));
    HORING_TRY(line.expect("stride"));
    HORING_TRY(line.number("the stride in rows", block.row_stride));
    HORING_TRY(line.number("the stride in columns", block.column_stride));
    return line.end();
  }

  static Status parseStep(LineReader& line, Step& step) {
    HORING_TRY(line.number("the number of the chunk", step.chunk));
    HORING_TRY(line.expect("="));
    do {
      if (step.sources.size() == kMaxSources)
        return line.wrong(formatString("expected at most %d sources", kMaxSources));
      HORING_TRY(parseSource(line, step.sources.emplace_back()));
    } while (line.take("+"));
    if (line.take(",")) {
      HORING_TRY(line.expect("complete"));
      step.completes = true;
    }
    if (line.take("->")) HORING_TRY(parseTargets(line, step));
    if (line.take("after")) HORING_TRY(parseWait(line, step.wait));
    return line.end();
  }

  static Status parseSignal(LineReader& line, Step& step) {
    if (line.take("await")) {
      do {
        if (step.sources.size() == kMaxSources)
          return line.wrong(formatString("expected at most %d signals", kMaxSources));
        step.sources.push_back({Source::Kind::kSignal, 0});
        HORING_TRY(line.number("the position to await a signal from", step.sources.back().index));
      } while (line.atNumber());
    }
    if (line.take("signal")) {
      do {
        if (step.signal_to.size() == kMaxSources)
          return line.wrong(formatString("expected at most %d signals", kMaxSources));
        HORING_TRY(line.number("the position to signal to", step.signal_to.emplace_back()));
      } while (line.atNumber());
    }
    if (line.take("after")) HORING_TRY(parseWait(line, step.wait));
    return line.end();
  }

  static Status parseSource(LineReader& line, Source& source) {
    if (line.take("in")) {
      source = {Source::Kind::kIn, 0};
      if (!line.take("of")) return {};
      source.kind = Source::Kind::kPeerIn;
      return line.number("the position whose input is read", source.index);
    } else if (line.take("out")) {
      source = {Source::Kind::kOut, 0};
    } else if (line.take("recv")) {
      source.kind = Source::Kind::kRecv;
      return line.number("the position to receive from", source.index);
    } else if (line.take("scratch")) {
      source.kind = Source::Kind::kScratch;
      return line.number("the scratch queue", source.index);
    } else {
      return line.wrong("expected a source: in, out, recv or scratch");
    }
    return {};
  }

  static Status parseTargets(LineReader& line, Step& step) {
    if (line.take("out")) {
      step.keep.kind = Keep::Kind::kOut;
      if (line.take("of")) {
        HORING_TRY(line.expect("all"));
        step.keep.kind = Keep::Kind::kEveryOut;
      }
    } else if (line.take("scratch")) {
      step.keep.kind = Keep::Kind::kScratch;
      HORING_TRY(line.number("the scratch queue", step.keep.index));
    } else {
      HORING_TRY(line.expect("send"));
      return line.number("the position to send to", step.send_to);
    }
    if (!line.take(",")) return {};
    HORING_TRY(line.expect("send"));
    return line.number("the position to send to", step.send_to);
  }

  static Status parseWait(LineReader& line, Wait& wait) {
    HORING_TRY(line.expect("lane"));
    HORING_TRY(line.number("the lane waited for", wait.lane));
    HORING_TRY(line.expect("step"));
    HORING_TRY(line.number("the step waited for", wait.step));
    return line.take("stride") ? line.number("by how many steps that moves on", wait.stride) : Status();
  }

  std::vector<Schedule> schedules_;
};

}  // namespace

std::string formatSchedule(const Schedule& schedule) {
  std::string text = formatString("schedule %s %s%s position %d of %d grid %d x %d scratch %d%s%s\n",
                                  schedule.algorithm.c_str(), collectiveName(schedule.collective),
                                  rootText(schedule).c_str(), schedule.position, schedule.ranks,
                                  schedule.grid.rows, schedule.grid.columns, schedule.scratch_queues,
                                  groupsText(schedule.rails).c_str(), sharesText(schedule.shares).c_str());
  for (size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    text += formatString("lane %zu\n", lane);
    int64_t step = 0;
    for (const Block& block : schedule.lanes[lane].blocks) {
      text += blockText(block, step);
      for (const Step& body : block.body) text += stepText(body);
      step += static_cast<int64_t>(block.body.size()) * std::max(block.count, 0);
    }
  }
  return text;
}

Result<std::vector<Schedule>> parseSchedules(std::string_view text) {
  return Parser().parse(text);
}

}  // namespace horing
