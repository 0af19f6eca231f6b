#pragma once
// The numbers that turn a schedule into a plan and decide whether it can complete.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace horing {

inline constexpr int32_t kMaxSlices = 1 << 20;       // of a chunk
inline constexpr int32_t kMaxWindow = 1 << 16;       // slices
inline constexpr int32_t kMaxQueueSlices = 1 << 16;  // of a connection or a scratch queue

// A lane runs its steps in windows: for each window of W slices, for each step, for each slice of the window.
//
// Slots are a transport's slots: a slot holds one message, and a message holds up to `message_slices` slices of one step and one window, so
// a window is ceil(W / message_slices) messages. A plan needs slotsNeeded() slots, and W + 1 slices in each scratch queue: with one fewer,
// rings of three or more ranks deadlock (each rank of the ring fills its connection with a whole window before it receives the first slice
// from its predecessor).
struct PlanParameters {
  int32_t slices = 1;                 // of each chunk
  std::vector<int32_t> window = {1};  // slices, per lane; the last entry applies to all further lanes
  int32_t message_slices = 1;         // slices per message
  int32_t slots = 2;                  // messages per connection
  int32_t scratch_slices = 2;         // slices per scratch queue

  int32_t windowOf(int32_t lane) const {
    return window[std::min(static_cast<size_t>(lane), window.size() - 1)];
  }
  bool operator==(const PlanParameters&) const = default;
};

// The fewest slots of a connection, and slices of a scratch queue, with which no schedule deadlocks for want of slots.
constexpr int32_t slotsNeeded(int32_t window, int32_t message_slices) {
  return (window + message_slices - 1) / message_slices + 1;
}
constexpr int32_t scratchSlicesNeeded(int32_t window) {
  return window + 1;
}

// The number of slices that suffices to decide whether a plan with more slices can run: every window after the third repeats the pattern of
// earlier windows (tests/schedule proves the same answer with many more). For verifyProgress.
constexpr int32_t representativeSlices(int32_t slices, int32_t window) {
  return std::min(slices, 3 * window);
}

}  // namespace horing
