#pragma once
// Two proofs about the schedules of all ranks together, before any of them runs.
//
//   verifyValues:   whatever the timing, every rank ends with the right values. A property of the schedules.
//   verifyProgress: with these windows, messages and slots the ranks never deadlock.
//
// Both are pure functions, safe from any thread, and accept untrusted schedules: a wrong schedule is refused with kInvalidArgument and a
// message that names position, lane, step and fault. Costs are in bench/README.md.
#include <span>

#include "base/status.h"
#include "schedule/plan_parameters.h"
#include "schedule/postcondition.h"
#include "schedule/schedule.h"

namespace horing {

// Executes all schedules on symbols over unbounded connections. A value is (chunk, set of the positions
// folded in). Refused:
//   - whatever network.h refuses (numbers out of range, self-sends, waits for nothing, shapes that differ);
//   - a message or scratch value of another chunk than the step's; a contribution folded in twice;
//   - a read of `out` or scratch that nothing has written, or of a chunk that the collective does not have;
//   - a read of a peer's input before the reader can know that the peer has begun, or one that the peer may not know of when
//     it ends, or when it writes over it in place;
//   - a signal where a value is due, or a value where a signal is;
//   - an access to `out` (in place: to `in` too) that lane order, waits, messages and scratch hand-over do
//     not put after the writes and reads of the same chunk that it depends on: a data race;
//   - a value that is completed before all contributions are in it, twice, or never (Step::completes);
//   - lanes that never end, messages and scratch values that no step takes;
//   - a wrong result (schedule/postcondition.h).
// Fold order is not checked: a (+) b and b (+) a are the same symbol. All connections are unbounded here; see below.
Status verifyValues(std::span<const Schedule> all_ranks, InPlace in_place);

// Runs the slice loop (schedule/plan_parameters.h) of all lanes with bounded connections and scratch queues, every lane as far as it can.
// No step chooses between inputs, so the outcome does not depend on timing: one run decides. Refused: parameters out of range; ranks that
// stop before the end (the message shows the chain of waits); a message that holds other slices than its receiver expects, which happens if
// windows differ at the two ends of a connection or scratch queue.
//
// A message closes when it is full, when its step's part of the window is over, or at the last slice. A message longer than its window
// would stay open over several windows; the simulation detects and refuses that.
//
// Landings (transport/landings.h) are not modelled, since they stop no sender for ever. Whatever its lanes wait for, a receiver that is
// polled tells the landings of each connection as far as the queue of announcements has room, and the sender makes room by sending. A
// message with a landing takes a slot as others do. So in the end a sender waits for slots only, as here. That the engine keeps to this
// is tested by Simulation.EndsWhereSendersAwaitLandings (tests/simulated).
//
// Assumes schedules that verifyValues accepts. Cost grows with parameters.slices; representativeSlices() are
// enough.
Status verifyProgress(std::span<const Schedule> all_ranks, const PlanParameters& parameters);
// As above with parameters for each position: for ranks that disagree.
Status verifyProgress(std::span<const Schedule> all_ranks, std::span<const PlanParameters> parameters);

}  // namespace horing
