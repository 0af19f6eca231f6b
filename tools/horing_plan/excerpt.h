#pragma once
// The part of a timeline that is drawn, so that a picture fits on a screen: the first and the last of repeated items, and the beginning of
// the others.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "timeline.h"

namespace horing {

// A value.
struct Excerpt {
  std::vector<std::vector<int32_t>> rows;  // by position and lane: which row of its position; -1: not drawn
  std::vector<int32_t> row_counts;         // by position; 0: not drawn
  std::vector<int32_t> columns;            // by time; -1: not drawn
  std::vector<int32_t> times;              // by column
  std::vector<std::string> notes;          // what is left out

  bool draws(int32_t position) const { return row_counts[static_cast<size_t>(position)] > 0; }
  int32_t row(const Event& event) const {
    return rows[static_cast<size_t>(event.position)][static_cast<size_t>(event.lane)];
  }
  int32_t column(int32_t time) const { return columns[static_cast<size_t>(time)]; }
  bool draws(const Event& event) const { return row(event) >= 0 && column(event.start) >= 0; }
};

struct ExcerptQuestion {
  std::span<const Schedule> schedules;
  const Timeline& timeline;
  int32_t position = -1;                          // the only one to draw; -1: all
  std::function<std::string(const Event&)> look;  // steps that look the same may stand for each other
  std::function<bool(const Excerpt&)> fits;
};

// As much as fits; at least one row and one column.
Excerpt chooseExcerpt(const ExcerptQuestion& question);

}  // namespace horing
