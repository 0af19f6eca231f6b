#include "sim/simulation.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "schedule/network.h"
#include "schedule/plan_parameters.h"
#include "sim/core_turns.h"
#include "sim/simulation_state.h"

namespace horing {

namespace {

class Simulation {
 public:
  Simulation(const SimulationInput& input, const FoldedNetwork& network);
  Result<SimulationResult> run();

 private:
  struct Alarm {
    Picoseconds at;
    int32_t lane_id;
    bool operator>(const Alarm& other) const {
      return at != other.at ? at > other.at : lane_id > other.lane_id;
    }
  };

  LaneState& lane(int32_t id) { return lanes_[static_cast<size_t>(id)]; }
  WireState& wire(int32_t id) { return wires_[static_cast<size_t>(id)]; }
  ScratchState& scratch(int32_t lane_id, int32_t queue) {
    const int32_t first = network_.positionOf(lane_id) * scratch_queues_;
    return scratch_[static_cast<size_t>(first + queue)];
  }
  const StepWires& wiresOf(int32_t lane_id) {
    return network_.stepWires(lane_id, lane(lane_id).cursor.written());
  }

  void prepareWires();
  void prepareLanes();
  Status checkSize() const;
  Status tooMuchWork() const;
  void wake(int32_t lane_id);
  void wakeAt(int32_t lane_id, Picoseconds at);
  void runWork();
  void endJobs();
  void runLane(int32_t lane_id);
  size_t bytesOfSlice(const LaneState& state) const;
  void advance(int32_t lane_id);
  void enterStep(LaneState& state) const;
  bool isDone(const LaneState& waiting, const LaneState& other, int32_t step) const;
  LaneObstacle findObstacle(int32_t lane_id);
  bool lacksMessage(int32_t lane_id, int32_t wire_id);
  bool lacksSlot(int32_t lane_id, int32_t wire_id);
  Cause causeOf(const LaneState& state);
  void begin(int32_t lane_id);
  Picoseconds costOfSlice(int32_t lane_id) const;
  void queueJob(int32_t rank, const RankWork::Job& job);
  void passCoresOn();
  Picoseconds costOfWaking(int32_t rank) const;
  void finish(int32_t lane_id);
  int32_t keepRecord(int32_t lane_id);
  void releaseInputs(int32_t lane_id, int32_t record);
  void returnCredit(int32_t wire_id, int32_t record);
  void sendCredit(const Credit& credit);
  void post(int32_t wire_id, size_t bytes, int32_t record);
  void onLeft(int32_t wire_id);
  void tellRank(int32_t lane_id, int32_t record);
  Status stuck();

  const SimulationInput& input_;
  const FoldedNetwork& network_;
  const bool keeps_records_;
  MachinePipes machine_;
  SharedPipes& pipes_;
  Layout layout_;
  Slicing slicing_;
  FifoPool<Coming> coming_;
  FifoPool<Credit> credits_;
  std::vector<WireState> wires_;
  std::vector<LaneState> lanes_;
  std::vector<StepCost> step_costs_;  // by lane and StepCursor::written()
  std::vector<size_t> first_step_cost_;
  std::vector<RankWork> ranks_;
  const bool takes_turns_;
  CoreTurns turns_;
  std::vector<int32_t> finished_;  // ranks that may have become idle
  Picoseconds patience_ = 0, turn_cost_ = 0, wake_cost_ = 0;
  int32_t slots_between_ = 0, scratch_queues_ = 0, scratch_slices_ = 0;
  std::vector<ScratchState> scratch_;
  std::vector<int32_t> work_;  // lanes to run
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  Picoseconds now_ = 0;
  SimulationResult result_;
};

Simulation::Simulation(const SimulationInput& input, const FoldedNetwork& network)
    : input_(input),
      network_(network),
      keeps_records_(input.record == Record::kEverything),
      machine_(input.machine, network),
      pipes_(machine_.pipes()),
      wires_(network.wires().size()),
      lanes_(static_cast<size_t>(network.lanes())),
      ranks_(input.schedules.size()),
      takes_turns_(takesTurns(input.machine)),
      turns_(input.machine, network.folding()),
      patience_(toPicoseconds(input.machine.patience_us)),
      turn_cost_(toPicoseconds(input.machine.turn_us)),
      wake_cost_(std::max(turn_cost_, toPicoseconds(input.machine.wake_us))) {
  result_.window = input.schedules[0].windowOf(input.pipelining.window);
  Extent extent;
  extent.count = input.count;
  layout_ = Layout::make(input.schedules[0], extent, nullptr, std::max<size_t>(64 / input.element_bytes, 1));
  const size_t largest = layout_.largestChunk();
  slicing_ = slicingOf(input.pipelining, input.schedules[0], largest, input.element_bytes);
  result_.slices_per_chunk = slicing_.slicesOf(largest);
  for (const Schedule& schedule : input.schedules)
    scratch_queues_ = std::max(scratch_queues_, schedule.scratch_queues);
  scratch_slices_ = input.pipelining.scratch_slices > 0 ? input.pipelining.scratch_slices
                                                        : scratchSlicesNeeded(result_.window);
  slots_between_ = slotsBetween(input.pipelining, input.machine.ranks());
  scratch_.resize(input.schedules.size() * static_cast<size_t>(scratch_queues_));
}

void Simulation::prepareWires() {
  for (size_t w = 0; w < wires_.size(); ++w) {
    const Wire& ends = network_.wires()[w];
    wires_[w].latency = machine_.latency(ends);
    wires_[w].start = machine_.start(ends);
    wires_[w].slots = ends.crosses_nodes ? slots_between_ : input_.pipelining.slots_inside;
  }
}

void Simulation::prepareLanes() {
  for (int32_t id = 0; id < network_.lanes(); ++id) {
    LaneState& state = lane(id);
    first_step_cost_.push_back(step_costs_.size());
    size_t written = 0;
    for (const Block& block : network_.lane(id).blocks)
      for (const Step& step : block.body)
        step_costs_.push_back(machine_.costOf(step, network_.stepWires(id, written++)));
    state.is_signals = network_.lane(id).isSignals();
    state.slices = state.is_signals ? 1 : static_cast<int32_t>(result_.slices_per_chunk);
    state.window = state.is_signals ? 1 : result_.window;
    state.window_end = std::min(state.window, state.slices);
    state.cursor = StepCursor(network_.lane(id), network_.scheduleOf(id).grid);
    state.done = state.cursor.done() || state.slices == 0;
    if (!state.done) enterStep(state);
  }
}

Status Simulation::tooMuchWork() const {
  return makeStatus(Code::kInvalidArgument,
                    "takes too long: shares of lines and cores change more than %lld times",
                    static_cast<long long>(input_.most_work));
}

Status Simulation::checkSize() const {
  int64_t steps = 0;
  for (int32_t id = 0; id < network_.lanes(); ++id)
    for (const Block& block : network_.lane(id).blocks)
      steps += static_cast<int64_t>(block.body.size()) * block.count;
  const int64_t most = keeps_records_ ? kMaxRecords : kMaxSimulatedSlices;
  const int64_t slices = std::max<int64_t>(result_.slices_per_chunk, 1);
  const bool fits = result_.slices_per_chunk <= kMaxSlices && steps <= most / slices;
  if (fits && steps * slices <= input_.most_work) return {};  // each needs at least one share
  if (fits) return tooMuchWork();
  return makeStatus(Code::kInvalidArgument,
                    "%lld steps of %lld slices each are more than can be %s (%lld): take fewer ranks, larger "
                    "slices, or an algorithm in which one node can stand for all",
                    static_cast<long long>(steps), static_cast<long long>(result_.slices_per_chunk),
                    keeps_records_ ? "recorded" : "simulated", static_cast<long long>(most));
}

Result<SimulationResult> Simulation::run() {
  HORING_TRY(checkSize());
  prepareWires();
  prepareLanes();
  for (int32_t id = 0; id < network_.lanes(); ++id) wake(id);
  while (true) {
    runWork();
    passCoresOn();
    pipes_.settle(now_);
    if (pipes_.sharings() > input_.most_work) return tooMuchWork();
    const Picoseconds next =
        std::min({pipes_.nextEnd(), turns_.next(), alarms_.empty() ? SharedPipes::kNever : alarms_.top().at});
    if (next == SharedPipes::kNever) break;
    now_ = next;
    endJobs();
  }
  for (const LaneState& state : lanes_)
    if (!state.done) return stuck();
  result_.usages = machine_.usages(result_.time);
  return std::move(result_);
}

void Simulation::wake(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  if (state.queued || state.busy || state.done) return;
  state.queued = true;
  work_.push_back(lane_id);
}

void Simulation::wakeAt(int32_t lane_id, Picoseconds at) {
  if (at <= now_) return wake(lane_id);
  alarms_.push({at, lane_id});
}

// In lane order, so that a representative node acts in the same order as in a full simulation.
void Simulation::runWork() {
  std::vector<int32_t> batch;
  while (!work_.empty()) {
    batch.swap(work_);
    std::sort(batch.begin(), batch.end());
    for (const int32_t id : batch) {
      lane(id).queued = false;
      runLane(id);
    }
    batch.clear();
  }
}

void Simulation::endJobs() {
  for (int32_t pipe = pipes_.popEnded(now_); pipe >= 0; pipe = pipes_.popEnded(now_)) {
    if (!machine_.isCore(pipe)) {
      onLeft(pipe);
      continue;
    }
    RankWork& rank = ranks_[static_cast<size_t>(machine_.rankOfCore(pipe))];
    const int32_t id = rank.jobs.front().lane_id;
    rank.jobs.pop();
    finish(id);
    wake(id);
    if (takes_turns_) finished_.push_back(machine_.rankOfCore(pipe));
  }
  for (; !alarms_.empty() && alarms_.top().at <= now_; alarms_.pop()) wake(alarms_.top().lane_id);
}

void Simulation::runLane(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  while (!state.done && !state.busy) {
    state.bytes = bytesOfSlice(state);
    if (state.bytes == 0 && !state.is_signals) {  // the slice does not exist, at either end of a connection
      advance(lane_id);
      continue;
    }
    const LaneObstacle obstacle = findObstacle(lane_id);
    if (obstacle.kind != LaneObstacle::Kind::kNothing) {
      state.obstacle = obstacle;
      return;
    }
    begin(lane_id);
  }
}

size_t Simulation::bytesOfSlice(const LaneState& state) const {
  return state.is_signals ? 0 : state.slicing.range(state.count, state.slice).count * input_.element_bytes;
}

// Moves to the next slice of the step, the next step, or the first step of the next window.
void Simulation::advance(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  if (++state.slice < state.window_end) return;
  state.cursor.next();
  if (state.cursor.done()) {
    state.done = state.window_end == state.slices;
    if (state.done) return;
    state.window_first = state.window_end;
    state.window_end = std::min(state.window_first + state.window, state.slices);
    state.cursor = StepCursor(network_.lane(lane_id), network_.scheduleOf(lane_id).grid);
  }
  state.slice = state.window_first;
  enterStep(state);
}

// With folding all chunks have the size of the largest.
void Simulation::enterStep(LaneState& state) const {
  if (state.is_signals) return;
  state.count = network_.folding().folds() ? layout_.largestChunk() : layout_.count(state.cursor.chunk());
  state.slicing = slicing_.ofChunk(layout_, state.count, input_.element_bytes);
}

// Whether `waiting` need not wait for that step of the other lane any more; as in the engine.
bool Simulation::isDone(const LaneState& waiting, const LaneState& other, int32_t step) const {
  const int32_t slice = waiting.is_signals ? other.slices - 1 : other.is_signals ? 0 : waiting.slice;
  if (other.done || slice < other.window_first) return true;
  if (slice >= other.window_end) return false;
  const int32_t at = other.cursor.index();
  return step < at || (step == at && slice < other.slice);
}

LaneObstacle Simulation::findObstacle(int32_t lane_id) {
  const LaneState& state = lane(lane_id);
  const Step& step = state.cursor.step();
  const int32_t first = network_.laneId(network_.positionOf(lane_id), 0);
  if (step.wait.lane >= 0 && !isDone(state, lane(first + step.wait.lane), state.cursor.waitStep()))
    return {LaneObstacle::Kind::kWait};
  const StepWires& wires = wiresOf(lane_id);
  for (int32_t i = 0; i < wires.recvs; ++i)
    if (const int32_t id = network_.wireAt(wires.first_recv + i); lacksMessage(lane_id, id))
      return {LaneObstacle::Kind::kMessage, id};
  for (const Source& source : step.sources)
    if (source.kind == Source::Kind::kScratch && scratch(lane_id, source.index).ready == 0)
      return {LaneObstacle::Kind::kScratch};
  if (step.keep.kind == Keep::Kind::kScratch && scratch(lane_id, step.keep.index).used >= scratch_slices_)
    return {LaneObstacle::Kind::kScratch};
  for (int32_t i = 0; i < wires.sends; ++i)
    if (const int32_t id = network_.wireAt(wires.first_send + i); lacksSlot(lane_id, id))
      return {LaneObstacle::Kind::kSlot, id};
  return {};
}

// If the missing message is in flight, its arrival wakes the lane.
bool Simulation::lacksMessage(int32_t lane_id, int32_t wire_id) {
  const WireState& from = wire(wire_id);
  if (from.arriving.empty()) return true;
  const Picoseconds at = coming_.front(from.arriving).at;
  if (at <= now_) return false;
  wakeAt(lane_id, at);
  return true;
}

bool Simulation::lacksSlot(int32_t lane_id, int32_t wire_id) {
  WireState& to = wire(wire_id);
  while (!to.returning.empty() && coming_.front(to.returning).at <= now_) {
    to.freed_by = coming_.pop(to.returning).record;
    --to.used;
  }
  if (to.used < to.slots) return false;
  if (!to.returning.empty()) wakeAt(lane_id, coming_.front(to.returning).at);
  return true;
}

Cause Simulation::causeOf(const LaneState& state) {
  switch (state.obstacle.kind) {
    case LaneObstacle::Kind::kNothing:
      break;
    case LaneObstacle::Kind::kWait:
    case LaneObstacle::Kind::kScratch:
      return {Cause::Kind::kWait, state.woken_by};
    case LaneObstacle::Kind::kMessage:
      return {Cause::Kind::kMessage, coming_.front(wire(state.obstacle.wire).arriving).record};
    case LaneObstacle::Kind::kSlot:
      return {Cause::Kind::kSlot, wire(state.obstacle.wire).freed_by};
  }
  if (state.last_record == kNoRecord) return {};
  return {Cause::Kind::kOrder, state.last_record};
}

// Takes the slice's inputs, and queues it for the core.
void Simulation::begin(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  const Step& step = state.cursor.step();
  const StepWires& wires = wiresOf(lane_id);
  state.ready = now_;
  if (keeps_records_) state.cause = causeOf(state);
  state.obstacle = {};
  Picoseconds cost = costOfSlice(lane_id);
  for (int32_t i = 0; i < wires.recvs; ++i) {
    WireState& from = wire(network_.wireAt(wires.first_recv + i));
    if (coming_.pop(from.arriving).starts) cost += from.start;
  }
  for (const Source& source : step.sources)
    if (source.kind == Source::Kind::kScratch) --scratch(lane_id, source.index).ready;
  if (step.keep.kind == Keep::Kind::kScratch) ++scratch(lane_id, step.keep.index).used;
  for (int32_t i = 0; i < wires.sends; ++i) {
    WireState& to = wire(network_.wireAt(wires.first_send + i));
    ++to.used;
    to.starts = to.sending.empty();
    if (to.starts) cost += to.start;
  }
  const int32_t rank = network_.positionOf(lane_id);
  const RankWork& own = ranks_[static_cast<size_t>(rank)];
  const Picoseconds waking = takes_turns_ || !own.jobs.empty() ? 0 : costOfWaking(rank);
  if (cost + waking == 0 && (!takes_turns_ || own.has_core)) return finish(lane_id);
  state.busy = true;
  queueJob(rank, {lane_id, cost + waking});
}

void Simulation::queueJob(int32_t rank, const RankWork::Job& job) {
  RankWork& state = ranks_[static_cast<size_t>(rank)];
  state.jobs.push(job);
  if (!takes_turns_ || state.has_core)
    return pipes_.push(machine_.pipeOfCore(rank), static_cast<double>(job.cost));
  if (state.jobs.size() == 1) turns_.begin(rank, now_);
}

// Passes cores from idle ranks to the ranks whose turn has come, which begin all their work.
void Simulation::passCoresOn() {
  for (const int32_t rank : finished_) {
    RankWork& state = ranks_[static_cast<size_t>(rank)];
    if (!state.has_core || !state.jobs.empty()) continue;
    state.has_core = false;
    turns_.end(rank, now_);
  }
  finished_.clear();
  for (int32_t rank = turns_.pop(now_); rank >= 0; rank = turns_.pop(now_)) {
    RankWork& state = ranks_[static_cast<size_t>(rank)];
    state.has_core = true;
    for (size_t left = state.jobs.size(); left > 0; --left) {
      const RankWork::Job job = state.jobs.front();
      state.jobs.pop();
      state.jobs.push(job);
      pipes_.push(machine_.pipeOfCore(rank), static_cast<double>(job.cost));
    }
  }
}

Picoseconds Simulation::costOfSlice(int32_t lane_id) const {
  const LaneState& state = lanes_[static_cast<size_t>(lane_id)];
  const StepCost& cost = step_costs_[first_step_cost_[static_cast<size_t>(lane_id)] + state.cursor.written()];
  return static_cast<Picoseconds>(cost.fixed + cost.per_byte * static_cast<double>(state.bytes) + 0.5);
}

// An idle rank has yielded its core; after its patience it has blocked.
Picoseconds Simulation::costOfWaking(int32_t rank) const {
  const Picoseconds idle = now_ - ranks_[static_cast<size_t>(rank)].idle_since;
  return idle == 0 ? 0 : idle > patience_ ? wake_cost_ : turn_cost_;
}

void Simulation::finish(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  state.busy = false;
  ranks_[static_cast<size_t>(network_.positionOf(lane_id))].idle_since = now_;
  const int32_t record = keepRecord(lane_id);
  releaseInputs(lane_id, record);
  const Step& step = state.cursor.step();
  if (step.keep.kind == Keep::Kind::kScratch) ++scratch(lane_id, step.keep.index).ready;
  const StepWires& wires = wiresOf(lane_id);
  for (int32_t i = 0; i < wires.sends; ++i) post(network_.wireAt(wires.first_send + i), state.bytes, record);
  ++result_.slices;
  result_.time = now_;
  advance(lane_id);
  tellRank(lane_id, record);
}

int32_t Simulation::keepRecord(int32_t lane_id) {
  if (!keeps_records_) return kNoRecord;
  LaneState& state = lane(lane_id);
  state.last_record = static_cast<int32_t>(result_.slice_records.size());
  result_.slice_records.push_back(
      {lane_id, state.cursor.index(), state.slice, state.cursor.chunk(), state.ready, now_, state.cause});
  return state.last_record;
}

// The receiver is done with the slots; returns credits to the senders.
void Simulation::releaseInputs(int32_t lane_id, int32_t record) {
  const StepWires& wires = wiresOf(lane_id);
  for (int32_t i = 0; i < wires.recvs; ++i) returnCredit(network_.wireAt(wires.first_recv + i), record);
  for (const Source& source : lane(lane_id).cursor.step().sources)
    if (source.kind == Source::Kind::kScratch) --scratch(lane_id, source.index).used;
}

// A link between nodes carries messages and credits in one order.
void Simulation::returnCredit(int32_t wire_id, int32_t record) {
  WireState* longest = nullptr;
  for (const int32_t id : network_.wiresBack(wire_id)) {
    WireState& back = wire(id);
    if (back.posted > back.left && (!longest || back.posted - back.left > longest->posted - longest->left))
      longest = &back;
  }
  if (!longest) return sendCredit({.wire = wire_id, .record = record});
  credits_.push(longest->behind, {.after = longest->posted, .wire = wire_id, .record = record});
}

void Simulation::sendCredit(const Credit& credit) {
  WireState& of = wire(credit.wire);
  coming_.push(of.returning, {.at = now_ + of.latency, .record = credit.record});
  const int32_t sender = network_.wires()[static_cast<size_t>(credit.wire)].from_lane;
  if (sender >= 0 && lane(sender).obstacle == LaneObstacle{LaneObstacle::Kind::kSlot, credit.wire})
    wakeAt(sender, now_ + of.latency);
}

void Simulation::post(int32_t wire_id, size_t bytes, int32_t record) {
  int32_t message = kNoRecord;
  if (keeps_records_) {
    message = static_cast<int32_t>(result_.message_records.size());
    result_.message_records.push_back({wire_id, record, static_cast<int64_t>(bytes), now_, now_, now_});
  }
  coming_.push(wire(wire_id).sending, {now_, message, wire(wire_id).starts});
  ++wire(wire_id).posted;
  pipes_.push(wire_id, static_cast<double>(bytes));
  ++result_.messages;
}

void Simulation::onLeft(int32_t wire_id) {
  WireState& on = wire(wire_id);
  Coming message = coming_.pop(on.sending);
  message.at = now_ + on.latency;
  coming_.push(on.arriving, message);
  ++on.left;
  while (!on.behind.empty() && credits_.front(on.behind).after <= on.left)
    sendCredit(credits_.pop(on.behind));
  if (message.record != kNoRecord) {
    MessageRecord& kept = result_.message_records[static_cast<size_t>(message.record)];
    kept.left = now_;
    kept.arrived = message.at;
  }
  const int32_t receiver = network_.wires()[static_cast<size_t>(wire_id)].to_lane;
  if (receiver >= 0 && lane(receiver).obstacle == LaneObstacle{LaneObstacle::Kind::kMessage, wire_id})
    wakeAt(receiver, message.at);
}

// Wakes the other lanes of the rank, which may wait for this one.
void Simulation::tellRank(int32_t lane_id, int32_t record) {
  const int32_t first = network_.laneId(network_.positionOf(lane_id), 0);
  for (int32_t other = first; other < first + network_.lanesOfRank(); ++other) {
    LaneState& state = lane(other);
    const LaneObstacle::Kind kind = state.obstacle.kind;
    if (other == lane_id || (kind != LaneObstacle::Kind::kWait && kind != LaneObstacle::Kind::kScratch))
      continue;
    state.woken_by = record;
    wake(other);
  }
}

Status Simulation::stuck() {
  for (int32_t id = 0; id < network_.lanes(); ++id) {
    const LaneState& state = lane(id);
    if (state.done) continue;
    static constexpr const char* kWhat[] = {"nothing", "another lane", "scratch", "a message", "a free slot"};
    const LaneObstacle& found = state.obstacle;
    const std::string peer =
        found.wire < 0
            ? ""
            : formatString(" (positions %d to %d)", network_.wires()[static_cast<size_t>(found.wire)].from,
                           network_.wires()[static_cast<size_t>(found.wire)].to);
    return makeStatus(
        Code::kInvalidArgument,
        "the ranks wait for each other for ever: %s, slice %d waits for %s%s; slots (%d inside a node, "
        "%d between) and scratch must be more than the window (%d), and 'horing-plan verify' says "
        "what else may be wrong",
        stepName(network_.scheduleOf(id), network_.laneOf(id), state.cursor.index()).c_str(), state.slice,
        kWhat[static_cast<size_t>(found.kind)], peer.c_str(), input_.pipelining.slots_inside, slots_between_,
        result_.window);
  }
  return {};
}

}  // namespace

Result<SimulationResult> simulate(const SimulationInput& input) {
  HORING_TRY(checkInput(input));
  HORING_ASSIGN(const FoldedNetwork network, FoldedNetwork::build(input.schedules, input.folding));
  return Simulation(input, network).run();
}

}  // namespace horing
