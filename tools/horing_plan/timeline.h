#pragma once
// When each step of all ranks would happen if every step took one unit of time and links never queued: the shape of a schedule,
// not a prediction of its speed.
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/network.h"

namespace horing {

// One executed step; `step` points into the schedules, which must outlive the timeline.
struct Event {
  int32_t position = 0;
  int32_t lane = 0;
  int32_t index = 0;  // of the step in its lane
  int32_t chunk = 0;
  int32_t start = 0;  // units; it ends one unit later
  const Step* step = nullptr;
};

// `to` could not start before `from` had ended. Indices into Timeline::events.
struct Dependence {
  enum class Kind { kMessage, kWait, kScratch };
  Kind kind = Kind::kMessage;
  size_t from = 0;
  size_t to = 0;
};

struct Timeline {
  std::vector<Event> events;  // by position, lane, index
  std::vector<Dependence> dependences;
  int32_t length = 0;  // units
};

inline constexpr int64_t kMaxTimelineSteps = 200000;

// Errors: what Network::build() refuses, more than kMaxTimelineSteps steps, schedules that never end.
Result<Timeline> computeTimeline(std::span<const Schedule> all_ranks);

}  // namespace horing
