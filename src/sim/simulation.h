#pragma once
// Predicts how long a collective takes on a machine: runs the slice loop (schedule/plan_parameters.h) of all ranks on simulated
// time, over the same schedules, layout and slices as the engine.
//
// A slice of a step starts when its inputs are there, its lane has reached it, and there is a free slot to send into. It occupies its
// rank's core while it computes; then its value is kept, and its message queues on its connection. Lines, ports, memory and cores are
// shared as shared_pipes.h says. The receiver frees the slot when it is done with the message, and the sender learns of it one latency
// later; between nodes, the credit first waits for the messages that the receiver has queued for the sender.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "schedule/layout.h"
#include "sim/machine_pipes.h"

namespace horing {

// The engine's parameters, with the same defaults.
struct Pipelining {
  int32_t window = defaultOf("HORING_TESTS_WINDOW");     // slices
  size_t slice_bytes = defaultOf("HORING_SLICE_BYTES");  // at most; also the size of a slot
  int32_t slices_per_chunk = 0;  // 0: as the engine chooses; otherwise of the largest chunk
  int32_t slots_inside = defaultOf("HORING_TESTS_SLOTS");  // of a connection in a node
  int32_t slots_between = 0;   // of a connection between nodes; 0: as the links of the job have them
  int32_t scratch_slices = 0;  // 0: what the window needs
};

// Slots of a connection between nodes in a job of `ranks` ranks.
int32_t slotsBetween(const Pipelining& pipelining, int32_t ranks);

// The slicing of this schedule, whose largest chunk has this many elements.
Slicing slicingOf(const Pipelining& pipelining, const Schedule& schedule, size_t largest_chunk,
                  size_t element_bytes);

inline constexpr int64_t kMaxSimulatedSlices = int64_t{1} << 32;
inline constexpr int64_t kMaxRecords = 20'000'000;

enum class Record : uint8_t { kNothing, kEverything };

struct SimulationInput {
  MachineModel machine;                 // with link_parts: all ranks are simulated
  std::span<const Schedule> schedules;  // of positions 0 to folding.simulatedRanks()
  Folding folding{Folding::Kind::kNone, 1, 1};
  size_t count = 0;  // elements, as Extent::count
  size_t element_bytes = 4;
  Pipelining pipelining;
  Record record = Record::kNothing;
  // A limit of SharedPipes::sharings(); exceeding it is an error.
  int64_t most_work = INT64_MAX;
};

inline constexpr int32_t kNoRecord = -1;

// The last dependency of a slice.
struct Cause {
  // kOrder: the previous slice in its lane. kWait: a slice of another lane of its rank. kMessage: a message. kSlot: the receiver's slice
  // that freed a slot. kStart: nothing.
  enum class Kind : uint8_t { kStart, kOrder, kWait, kMessage, kSlot };
  Kind kind = Kind::kStart;
  int32_t record = kNoRecord;  // index into slices, or of messages
};

struct SliceRecord {
  int32_t lane_id = 0;
  int32_t step = 0;
  int32_t slice = 0;
  int32_t chunk = 0;
  Picoseconds ready = 0;  // when it queued for the core of its rank
  Picoseconds end = 0;
  Cause cause;
};

struct MessageRecord {
  int32_t wire = 0;
  int32_t sender = kNoRecord;  // slice
  int64_t bytes = 0;
  Picoseconds posted = 0;
  Picoseconds left = 0;  // when it left the line
  Picoseconds arrived = 0;
};

struct SimulationResult {
  Picoseconds time = 0;
  int64_t slices = 0;    // executed, of the simulated ranks
  int64_t messages = 0;  // with data or without
  int64_t slices_per_chunk = 0;
  int32_t window = 0;  // slices
  std::vector<Usage> usages;
  // With Record::kEverything, in the order of their ends (slices) or posts (messages).
  std::vector<SliceRecord> slice_records;
  std::vector<MessageRecord> message_records;
};

// The errors of simulate() for numbers out of range.
Status checkInput(const SimulationInput& input);

// A pure function: the same input gives the same result on every computer. Assumes schedules that verifyValues accepts. Errors,
// kInvalidArgument: whatever FoldedNetwork::build() refuses; numbers out of range; a deadlock, naming one rank; more than
// kMaxSimulatedSlices or, with records, kMaxRecords; more than most_work.
Result<SimulationResult> simulate(const SimulationInput& input);

// Elements, as in Extent::count, for `bytes` of the whole vector; a block has at least one element.
size_t elementsOf(Collective collective, int32_t ranks, uint64_t bytes, size_t element_bytes);

}  // namespace horing
