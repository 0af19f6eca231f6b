#include "excerpt.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/status.h"

namespace horing {

namespace {

constexpr size_t kLongestPeriod = 16;  // columns that repeat together
constexpr size_t kLeastLeftOut = 3;    // columns

// The number of times that the `period` columns from `at` on follow each other.
size_t repetitions(const std::vector<std::string>& looks, size_t at, size_t period) {
  size_t same = 0;
  while (at + period + same < looks.size() && looks[at + same] == looks[at + period + same]) ++same;
  return same / period + 1;
}

class Choice {
 public:
  explicit Choice(const ExcerptQuestion& question) : question_(question) {
    for (const Schedule& schedule : question.schedules) {
      const bool is_drawn = question.position < 0 || question.position == schedule.position;
      excerpt_.rows.emplace_back(schedule.lanes.size(), is_drawn ? 0 : -1);
    }
    for (const Event& event : question.timeline.events) looks_.push_back(question.look(event));
    arrange();
  }

  Excerpt choose() {
    const auto stages = {&Choice::foldPositionsInTime, &Choice::foldColumns, &Choice::foldPositions,
                         &Choice::foldLanes,           &Choice::cutRows,     &Choice::cutColumns};
    for (const auto stage : stages) {
      if (question_.fits(excerpt_)) break;
      (this->*stage)();
    }
    return std::move(excerpt_);
  }

 private:
  using Key = std::pair<int32_t, int32_t>;  // position and lane

  void note(size_t count, const char* one, const char* many) {
    if (count > 0) excerpt_.notes.push_back(formatString("%zu more %s", count, count == 1 ? one : many));
  }

  // Numbers the rows that are drawn, and the columns from the first to the last that has a step of theirs.
  void arrange() {
    excerpt_.row_counts.clear();
    for (std::vector<int32_t>& lanes : excerpt_.rows) {
      int32_t count = 0;
      for (int32_t& row : lanes)
        if (row >= 0) row = count++;
      excerpt_.row_counts.push_back(count);
    }
    int32_t begin = question_.timeline.length, end = 0;
    for (const Event& event : question_.timeline.events)
      if (excerpt_.row(event) >= 0) {
        begin = std::min(begin, event.start);
        end = std::max(end, event.start + 1);
      }
    std::vector<int32_t> times;
    for (int32_t time = begin; time < end; ++time) times.push_back(time);
    drawTimes(std::move(times));
    if (folds_columns_) leaveOutRepetitions();
  }

  void drawTimes(std::vector<int32_t> times) {
    excerpt_.columns.assign(static_cast<size_t>(std::max(question_.timeline.length, 1)), -1);
    excerpt_.times = std::move(times);
    for (size_t column = 0; column < excerpt_.times.size(); ++column)
      excerpt_.columns[static_cast<size_t>(excerpt_.times[column])] = static_cast<int32_t>(column);
  }

  // What each drawn row does, and when: counted from its position's first step if `from_first`.
  template <typename KeyOf>
  std::map<Key, std::string> looksBy(KeyOf key_of, bool from_first) const {
    std::map<Key, int32_t> first;
    std::map<Key, std::string> looks;
    for (size_t i = 0; i < looks_.size(); ++i) {
      const Event& event = question_.timeline.events[i];
      if (excerpt_.row(event) < 0) continue;
      const Key key = key_of(event);
      const int32_t from = from_first ? first.try_emplace(key, event.start).first->second : 0;
      const int32_t lane = key.second < 0 ? event.lane : 0;
      looks[key] += formatString("%d %d %s;", lane, event.start - from, looks_[i].c_str());
    }
    return looks;
  }

  // Of positions or lanes (of one position) that look the same, the first is drawn.
  size_t leaveOutSame(const std::map<Key, std::string>& looks, bool is_of_lanes) {
    std::set<std::pair<int32_t, std::string>> seen;
    size_t left_out = 0;
    for (const auto& [key, look] : looks) {
      const auto [position, lane] = key;
      if (seen.emplace(is_of_lanes ? position : 0, look).second) continue;
      std::vector<int32_t>& lanes = excerpt_.rows[static_cast<size_t>(position)];
      if (is_of_lanes) {
        lanes[static_cast<size_t>(lane)] = -1;
      } else {
        std::fill(lanes.begin(), lanes.end(), -1);
      }
      ++left_out;
    }
    arrange();
    return left_out;
  }

  void foldPositionsInTime() {
    const auto looks = looksBy([](const Event& event) { return Key{event.position, -1}; }, false);
    note(leaveOutSame(looks, false), "position takes the same steps at the same times, on other chunks",
         "positions take the same steps at the same times, on other chunks");
  }

  void foldPositions() {
    const auto looks = looksBy([](const Event& event) { return Key{event.position, -1}; }, true);
    note(leaveOutSame(looks, false), "position takes the same steps at other times",
         "positions take the same steps at other times");
  }

  void foldLanes() {
    const auto looks = looksBy([](const Event& event) { return Key{event.position, event.lane}; }, true);
    note(leaveOutSame(looks, true), "lane takes the same steps as one of its position",
         "lanes take the same steps as one of their position");
  }

  void foldColumns() {
    folds_columns_ = true;
    arrange();
    excerpt_.notes.emplace_back("times that repeat what is beside them are left out");
  }

  void leaveOutRepetitions() {
    if (excerpt_.times.empty()) return;
    const int32_t begin = excerpt_.times.front();
    std::vector<std::string> looks(excerpt_.times.size());
    for (size_t i = 0; i < looks_.size(); ++i) {
      const Event& event = question_.timeline.events[i];
      if (excerpt_.row(event) >= 0)
        looks[static_cast<size_t>(event.start - begin)] +=
            formatString("%d %d %s;", event.position, event.lane, looks_[i].c_str());
    }
    std::vector<int32_t> times;
    for (size_t at = 0; at < looks.size();) {
      size_t period = 1, times_drawn = 1, length = 1;
      for (size_t tried = 1; tried <= kLongestPeriod; ++tried) {
        const size_t found = repetitions(looks, at, tried);
        const size_t left_out = found > 2 ? (found - 2) * tried : 0;
        if (left_out < kLeastLeftOut || found * tried <= length) continue;
        period = tried, times_drawn = 2, length = found * tried;
      }
      for (size_t i = 0; i < length; ++i)
        if (i < period || (times_drawn == 2 && i >= length - period))
          times.push_back(begin + static_cast<int32_t>(at + i));
      at += length;
    }
    drawTimes(std::move(times));
  }

  void cutRows() {
    size_t left_out = 0;
    for (size_t position = excerpt_.rows.size(); position-- > 0 && !question_.fits(excerpt_);)
      for (size_t lane = excerpt_.rows[position].size(); lane-- > 0 && !question_.fits(excerpt_);) {
        int32_t& row = excerpt_.rows[position][lane];
        if (row < 0 || (position == firstDrawn() && row == 0)) continue;
        row = -1;
        ++left_out;
        arrange();
      }
    note(left_out, "lane does not fit", "lanes do not fit");
  }

  size_t firstDrawn() const {
    size_t position = 0;
    while (!excerpt_.draws(static_cast<int32_t>(position))) ++position;
    return position;
  }

  void cutColumns() {
    size_t left_out = 0;
    for (std::vector<int32_t> times = excerpt_.times; times.size() > 1 && !question_.fits(excerpt_);
         ++left_out) {
      times.pop_back();
      drawTimes(times);
    }
    note(left_out, "unit of time does not fit", "units of time do not fit");
  }

  const ExcerptQuestion& question_;
  std::vector<std::string> looks_;  // by event
  bool folds_columns_ = false;
  Excerpt excerpt_;
};

}  // namespace

Excerpt chooseExcerpt(const ExcerptQuestion& question) {
  return Choice(question).choose();
}

}  // namespace horing
