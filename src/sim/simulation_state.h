#pragma once
// The state of a simulation's connections, lanes and ranks.
#include <cstddef>
#include <cstdint>
#include <queue>

#include "schedule/layout.h"
#include "schedule/schedule.h"
#include "schedule/symbol_pool.h"
#include "sim/simulation.h"

namespace horing {

// A message or a credit in flight. Times are ascending in a queue.
struct Coming {
  Picoseconds at = 0;
  int32_t record = kNoRecord;
  bool starts = false;  // a message on an idle line
};
using ComingFifo = FifoPool<Coming>::Fifo;

// A credit that leaves behind the messages of another wire.
struct Credit {
  int64_t after = 0;  // it leaves when this many of these messages have
  int32_t wire = 0;   // of the slot
  int32_t record = kNoRecord;
};

struct WireState {
  Picoseconds latency = 0;
  Picoseconds start = 0;  // core time for a message on an idle line
  int32_t slots = 0;
  int32_t used = 0;              // slots in use, as the sender knows
  bool starts = false;           // whether the message of the slice on the core starts an idle line
  int32_t freed_by = kNoRecord;  // the slice whose credit arrived last
  ComingFifo sending;            // messages that have not left; `at` is not set yet
  ComingFifo arriving;
  ComingFifo returning;           // credits
  FifoPool<Credit>::Fifo behind;  // credits of the other direction
  int64_t posted = 0, left = 0;   // messages
};

struct ScratchState {
  int32_t used = 0;   // slices in use
  int32_t ready = 0;  // values ready to be read
};

// The reason why a lane cannot begin its slice.
struct LaneObstacle {
  enum class Kind : uint8_t { kNothing, kWait, kScratch, kMessage, kSlot };
  Kind kind = Kind::kNothing;
  int32_t wire = -1;
  bool operator==(const LaneObstacle&) const = default;
};

struct LaneState {
  StepCursor cursor;
  size_t count = 0;                                     // elements of the current step's chunk
  Slicing slicing;                                      // of that chunk
  int32_t window_first = 0, window_end = 0, slice = 0;  // slices
  int32_t slices = 1, window = 1;
  bool is_signals = false;
  bool queued = false;
  bool busy = false;  // its slice is on the core
  bool done = false;
  LaneObstacle obstacle;
  size_t bytes = 0;  // of the slice on the core
  Picoseconds ready = 0;
  Cause cause;
  int32_t last_record = kNoRecord;  // its latest slice
  int32_t woken_by = kNoRecord;     // a slice of another lane of its rank
};

// A rank's work for its core.
struct RankWork {
  struct Job {
    int32_t lane_id;
    Picoseconds cost;
  };
  std::queue<Job> jobs;        // slices, in order
  Picoseconds idle_since = 0;  // the end of its last slice
  bool has_core = false;       // if ranks take turns
};

}  // namespace horing
