// Runs the slice loop of all lanes with bounded queues until nothing moves.
//
// No step chooses between inputs and every queue has one lane at each end, so this is a Kahn network: the final state does not depend on
// the order in which lanes run.
#include <algorithm>

#include "schedule/network.h"
#include "schedule/symbol_pool.h"
#include "schedule/verify.h"

namespace horing {

namespace {

// Slices first .. first + count - 1 of a chunk, in a connection (one message) or in a scratch queue (one
// slice).
struct Load {
  int32_t chunk = 0;
  int32_t first = 0;
  int32_t count = 0;
};

struct Queue {
  FifoPool<Load>::Fifo loads;  // visible to the reader
  int32_t used = 0;            // slots taken: visible messages and the open one; or slices of scratch
  int32_t taken = 0;           // slices that the reader has consumed of the first message
  Load open;                   // the message being filled; none if count is 0
};

class ProgressRun {
 public:
  ProgressRun(const Network& network, std::span<const PlanParameters> parameters);
  Status run();

 private:
  struct LaneState {
    StepCursor cursor;
    int32_t window_first = 0;  // slice
    int32_t slice = 0;         // next slice of the step at the cursor
    int32_t window = 1;
    int32_t slices = 1;  // 1 for a signal lane
    bool is_signals = false;
    bool queued = false;
    bool done = false;
  };
  // The current step.
  struct Now {
    int32_t lane_id = 0;
    int32_t position = 0;
    int32_t chunk = 0;
    int32_t window_end = 0;  // slice
    const Step* step = nullptr;
    const StepPorts* ports = nullptr;
  };

  LaneState& lane(int32_t id) { return lanes_[static_cast<size_t>(id)]; }
  const LaneState& lane(int32_t id) const { return lanes_[static_cast<size_t>(id)]; }
  const PlanParameters& parameters(int32_t position) const {
    return parameters_[parameters_.size() == 1 ? 0 : static_cast<size_t>(position)];
  }
  Queue& connection(int32_t id) { return connections_[static_cast<size_t>(id)]; }
  const Queue& connection(int32_t id) const { return connections_[static_cast<size_t>(id)]; }
  Queue& scratch(int32_t id) { return scratch_[static_cast<size_t>(id)]; }
  const Queue& scratch(int32_t id) const { return scratch_[static_cast<size_t>(id)]; }

  Now nowOf(int32_t lane_id) const;
  void wake(int32_t lane_id);
  Status runLane(int32_t lane_id);
  void advance(LaneState& state, const Now& now);
  bool isDone(const LaneState& waiting, int32_t lane_id, int32_t step) const;
  // The first obstacle for the lane's slice; kNothing: it can run.
  enum class Lack { kNothing, kWait, kMessage, kScratchValue, kSlot, kScratchRoom };
  struct Obstacle {
    Lack lack = Lack::kNothing;
    int32_t index = 0;  // connection, scratch queue (ids) or step
  };
  Obstacle obstacle(const Now& now) const;
  Status take(const Now& now);
  Status takeMessage(const Now& now, int32_t connection_id);
  Status takeScratch(const Now& now, int32_t scratch_id);
  Status give(const Now& now);
  Status send(const Now& now, int32_t connection_id);
  int32_t messageEnd(const Now& now, int32_t first) const;
  Blockage blockageOf(int32_t lane_id) const;
  Status fault(const Now& now, const char* format, ...) const __attribute__((format(printf, 3, 4)));

  const Network& network_;
  std::span<const PlanParameters> parameters_;
  FifoPool<Load> loads_;
  std::vector<Queue> connections_, scratch_;
  std::vector<LaneState> lanes_;
  std::vector<int32_t> work_;
};

ProgressRun::ProgressRun(const Network& network, std::span<const PlanParameters> parameters)
    : network_(network),
      parameters_(parameters),
      connections_(network.connections().size()),
      scratch_(network.scratchQueues().size()),
      lanes_(static_cast<size_t>(network.lanes())) {
  for (int32_t id = 0; id < network_.lanes(); ++id) {
    LaneState& state = lane(id);
    state.cursor = network_.cursor(id);
    state.is_signals = network_.lane(id).isSignals();
    if (!state.is_signals) {
      state.window = this->parameters(network_.positionOf(id)).windowOf(network_.laneOf(id));
      state.slices = parameters_[0].slices;
    }
    state.done = state.cursor.done();
  }
}

Status ProgressRun::fault(const Now& now, const char* format, ...) const {
  va_list arguments;
  va_start(arguments, format);
  const std::string what = formatStringV(format, arguments);
  va_end(arguments);
  const std::string step = stepName(network_.schedule(now.position), network_.laneOf(now.lane_id),
                                    lane(now.lane_id).cursor.index());
  return makeStatus(Code::kInvalidArgument, "plan of %s, slice %d: %s", step.c_str(), lane(now.lane_id).slice,
                    what.c_str());
}

ProgressRun::Now ProgressRun::nowOf(int32_t lane_id) const {
  const LaneState& state = lane(lane_id);
  return {lane_id,
          network_.positionOf(lane_id),
          state.cursor.chunk(),
          std::min(state.window_first + state.window, state.slices),
          &state.cursor.step(),
          &network_.ports(lane_id, state.cursor)};
}

void ProgressRun::wake(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  if (state.queued || state.done) return;
  state.queued = true;
  work_.push_back(lane_id);
}

Status ProgressRun::run() {
  for (int32_t id = network_.lanes() - 1; id >= 0; --id) wake(id);
  while (!work_.empty()) {
    const int32_t id = work_.back();
    work_.pop_back();
    lane(id).queued = false;
    HORING_TRY(runLane(id));
  }
  for (int32_t id = 0; id < network_.lanes(); ++id) {
    if (lane(id).done) continue;
    const Schedule& schedule = network_.schedule(0);
    const PlanParameters& plan = parameters(network_.positionOf(id));
    return makeStatus(Code::kInvalidArgument,
                      "plan of %s %s stops for ever with %d slices, window %d, %d slices per message, %d "
                      "slots, %d scratch slices: %s",
                      schedule.algorithm.c_str(), collectiveName(schedule.collective), plan.slices,
                      lane(id).window, plan.message_slices, plan.slots, plan.scratch_slices,
                      describeBlockage(id, [this](int32_t at) { return blockageOf(at); }).c_str());
  }
  return {};
}

// Runs a lane as far as it can, then wakes the lanes of its rank that may wait for it.
Status ProgressRun::runLane(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  bool moved = false;
  while (!state.done) {
    const Now now = nowOf(lane_id);
    bool stopped = false;
    while (state.slice < now.window_end && !stopped) {
      stopped = obstacle(now).lack != Lack::kNothing;
      if (stopped) break;
      HORING_TRY(take(now));
      HORING_TRY(give(now));
      ++state.slice;
      moved = true;
    }
    if (stopped) break;
    advance(state, now);
  }
  if (!moved) return {};
  const int32_t position = network_.positionOf(lane_id);
  const int32_t first = network_.laneId(position, 0);
  const int32_t count = static_cast<int32_t>(network_.schedule(position).lanes.size());
  for (int32_t other = first; other < first + count; ++other)
    if (other != lane_id) wake(other);
  return {};
}

// Moves to the next step, or to the first step of the next window.
void ProgressRun::advance(LaneState& state, const Now& now) {
  state.cursor.next();
  if (state.cursor.done()) {
    state.done = now.window_end == state.slices;
    if (state.done) return;
    state.window_first = now.window_end;
    state.cursor = network_.cursor(now.lane_id);
  }
  state.slice = state.window_first;
}

// Whether `waiting` need not wait for that step of lane `lane_id` any more.
bool ProgressRun::isDone(const LaneState& waiting, int32_t lane_id, int32_t step) const {
  const LaneState& state = lane(lane_id);
  // Signals wait for all slices, and every slice waits for signals.
  const int32_t slice = waiting.is_signals ? state.slices - 1 : state.is_signals ? 0 : waiting.slice;
  if (state.done || slice < state.window_first) return true;
  if (slice >= state.window_first + state.window) return false;
  const int32_t at = state.cursor.index();
  return step < at || (step == at && slice < state.slice);
}

ProgressRun::Obstacle ProgressRun::obstacle(const Now& now) const {
  const LaneState& state = lane(now.lane_id);
  if (const Wait& wait = now.step->wait; wait.lane >= 0) {
    const int32_t step = state.cursor.waitStep();
    if (!isDone(state, network_.laneId(now.position, wait.lane), step)) return {Lack::kWait, step};
  }
  int32_t recv = now.ports->first_recv;
  for (const Source& source : now.step->sources) {
    if (takesMessage(source)) {
      const int32_t id = network_.recvConnection(recv++);
      if (connection(id).loads.empty()) return {Lack::kMessage, id};
    } else if (source.kind == Source::Kind::kScratch) {
      const int32_t id = network_.scratchId(now.position, source.index);
      if (scratch(id).loads.empty()) return {Lack::kScratchValue, id};
    }
  }
  if (now.step->keep.kind == Keep::Kind::kScratch) {
    const int32_t id = network_.scratchId(now.position, now.step->keep.index);
    if (scratch(id).used >= parameters(now.position).scratch_slices) return {Lack::kScratchRoom, id};
  }
  for (const int32_t id : network_.sendConnections(*now.ports)) {
    const Queue& queue = connection(id);
    if (queue.open.count == 0 && queue.used >= parameters(now.position).slots) return {Lack::kSlot, id};
  }
  return {};
}

Status ProgressRun::take(const Now& now) {
  int32_t recv = now.ports->first_recv;
  for (const Source& source : now.step->sources) {
    if (takesMessage(source)) HORING_TRY(takeMessage(now, network_.recvConnection(recv++)));
    if (source.kind == Source::Kind::kScratch)
      HORING_TRY(takeScratch(now, network_.scratchId(now.position, source.index)));
  }
  return {};
}

// The slice after the last one of a message that starts at `first`, by this lane's parameters.
int32_t ProgressRun::messageEnd(const Now& now, int32_t first) const {
  const LaneState& state = lane(now.lane_id);
  if (state.is_signals) return first + 1;
  const int32_t longest = parameters(now.position).message_slices;
  return std::min(first + longest, longest > state.window ? state.slices : now.window_end);
}

Status ProgressRun::takeMessage(const Now& now, int32_t connection_id) {
  Queue& queue = connection(connection_id);
  const Load& message = loads_.front(queue.loads);
  const ConnectionEnds& ends = network_.connections()[static_cast<size_t>(connection_id)];
  const int32_t slice = lane(now.lane_id).slice;
  if (message.chunk != now.chunk || message.first + queue.taken != slice)
    return fault(now,
                 "gets slice %d of chunk %d from position %d where slice %d of chunk %d is due: the windows "
                 "of the two differ",
                 message.first + queue.taken, message.chunk, ends.from, slice, now.chunk);
  if (queue.taken == 0 && message.count != messageEnd(now, slice) - slice)
    return fault(now,
                 "gets a message of %d slices from position %d where one of %d is due: messages or windows "
                 "of the two differ",
                 message.count, ends.from, messageEnd(now, slice) - slice);
  if (++queue.taken < message.count) return {};
  queue.taken = 0;
  --queue.used;
  loads_.pop(queue.loads);
  wake(network_.laneId(ends.from, ends.lane));
  return {};
}

Status ProgressRun::takeScratch(const Now& now, int32_t scratch_id) {
  Queue& queue = scratch(scratch_id);
  const Load value = loads_.pop(queue.loads);
  const int32_t producer = network_.scratchQueues()[static_cast<size_t>(scratch_id)].producer;
  if (value.chunk != now.chunk || value.first != lane(now.lane_id).slice)
    return fault(now,
                 "gets slice %d of chunk %d from lane %d where slice %d of chunk %d is due: the windows of "
                 "the two lanes differ",
                 value.first, value.chunk, network_.laneOf(producer), lane(now.lane_id).slice, now.chunk);
  --queue.used;
  wake(producer);
  return {};
}

Status ProgressRun::give(const Now& now) {
  if (now.step->keep.kind == Keep::Kind::kScratch) {
    const int32_t id = network_.scratchId(now.position, now.step->keep.index);
    ++scratch(id).used;
    loads_.push(scratch(id).loads, {now.chunk, lane(now.lane_id).slice, 1});
    if (const int32_t consumer = network_.scratchQueues()[static_cast<size_t>(id)].consumer; consumer >= 0)
      wake(consumer);
  }
  for (const int32_t id : network_.sendConnections(*now.ports)) HORING_TRY(send(now, id));
  return {};
}

Status ProgressRun::send(const Now& now, int32_t connection_id) {
  Queue& queue = connection(connection_id);
  const int32_t slice = lane(now.lane_id).slice;
  if (queue.open.count == 0) {
    ++queue.used;
    queue.open = {now.chunk, slice, 0};
  }
  const ConnectionEnds& ends = network_.connections()[static_cast<size_t>(connection_id)];
  if (queue.open.chunk != now.chunk || queue.open.first + queue.open.count != slice)
    return fault(now,
                 "has to send while a message of chunk %d to position %d is still open, for it is longer "
                 "than the window",
                 queue.open.chunk, ends.to);
  if (queue.open.first + ++queue.open.count < messageEnd(now, queue.open.first)) return {};
  loads_.push(queue.loads, queue.open);
  queue.open = {};
  if (ends.receives) wake(network_.laneId(ends.to, ends.lane));
  return {};
}

Blockage ProgressRun::blockageOf(int32_t lane_id) const {
  const int32_t lane_number = network_.laneOf(lane_id);
  if (lane(lane_id).done)
    return {formatString("position %d, lane %d has ended", network_.positionOf(lane_id), lane_number), -1};
  const Now now = nowOf(lane_id);
  const std::string who = formatString("position %d, lane %d, step %d, slice %d waits for ", now.position,
                                       lane_number, lane(lane_id).cursor.index(), lane(lane_id).slice);
  const Obstacle found = obstacle(now);
  const size_t index = static_cast<size_t>(found.index);
  switch (found.lack) {
    case Lack::kNothing:
      break;
    case Lack::kWait:
      return {who + formatString("its lane %d, step %d", now.step->wait.lane, found.index),
              network_.laneId(now.position, now.step->wait.lane)};
    case Lack::kMessage: {
      const ConnectionEnds& ends = network_.connections()[index];
      const char* open = connection(found.index).open.count > 0 ? " (it is filling one)" : "";
      return {who + formatString("a message from position %d%s", ends.from, open),
              ends.sends ? network_.laneId(ends.from, ends.lane) : -1};
    }
    case Lack::kScratchValue:
      return {who + "a value in scratch", network_.scratchQueues()[index].producer};
    case Lack::kScratchRoom:
      return {who + "room in scratch", network_.scratchQueues()[index].consumer};
    case Lack::kSlot: {
      const ConnectionEnds& ends = network_.connections()[index];
      return {who + formatString("a free slot to position %d", ends.to),
              ends.receives ? network_.laneId(ends.to, ends.lane) : -1};
    }
  }
  return {who + "nothing", -1};
}

Status checkParameters(const PlanParameters& plan, const PlanParameters& first, size_t position) {
  const auto wrong = [&](const char* name, int32_t value, int32_t most) {
    return makeStatus(Code::kInvalidArgument, "plan of position %zu: %s is %d; 1 to %d are possible",
                      position, name, value, most);
  };
  const auto in_range = [](int32_t value, int32_t most) { return value >= 1 && value <= most; };
  if (!in_range(plan.slices, kMaxSlices)) return wrong("slices", plan.slices, kMaxSlices);
  if (plan.window.empty() || plan.window.size() > kMaxLanes)
    return makeStatus(Code::kInvalidArgument,
                      "plan of position %zu: windows for %zu lanes; 1 to %d are possible", position,
                      plan.window.size(), kMaxLanes);
  for (int32_t window : plan.window)
    if (!in_range(window, kMaxWindow)) return wrong("window", window, kMaxWindow);
  if (!in_range(plan.message_slices, kMaxWindow))
    return wrong("message_slices", plan.message_slices, kMaxWindow);
  if (!in_range(plan.slots, kMaxQueueSlices)) return wrong("slots", plan.slots, kMaxQueueSlices);
  if (!in_range(plan.scratch_slices, kMaxQueueSlices))
    return wrong("scratch_slices", plan.scratch_slices, kMaxQueueSlices);
  if (plan.slices != first.slices || plan.slots != first.slots)
    return makeStatus(Code::kInvalidArgument,
                      "plan of position %zu has %d slices and %d slots, that of position 0 has %d and %d",
                      position, plan.slices, plan.slots, first.slices, first.slots);
  return {};
}

}  // namespace

Status verifyProgress(std::span<const Schedule> all_ranks, std::span<const PlanParameters> parameters) {
  if (parameters.size() != 1 && parameters.size() != all_ranks.size())
    return makeStatus(Code::kInvalidArgument, "parameters for %zu positions, schedules of %zu",
                      parameters.size(), all_ranks.size());
  for (size_t position = 0; position < parameters.size(); ++position)
    HORING_TRY(checkParameters(parameters[position], parameters[0], position));
  HORING_ASSIGN(const Network network, Network::build(all_ranks));
  return ProgressRun(network, parameters).run();
}

Status verifyProgress(std::span<const Schedule> all_ranks, const PlanParameters& parameters) {
  return verifyProgress(all_ranks, {&parameters, 1});
}

}  // namespace horing
