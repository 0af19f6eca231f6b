// The proof that every rank ends with the result that the collective promises.
#include <algorithm>
#include <bit>

#include "schedule/value_run.h"
#include "schedule/verify.h"

namespace horing {

namespace {

// Enough for 4096 ranks in a ring; without a limit, a few hundred kilobytes of text could request terabytes.
constexpr uint64_t kMostBytes = uint64_t{2} << 30;

}  // namespace

size_t ValueRun::cellsPerRank(const Contract& contract, size_t chunks) {
  if (contract.out == ChunkSet::kOwn && !contract.rails) return 1;
  return contract.out == ChunkSet::kColumn ? chunks / static_cast<size_t>(contract.columns) : chunks;
}

uint64_t ValueRun::bytesOf(const Network& network) {
  size_t lanes_per_rank = 0;
  for (const Schedule& schedule : network.schedules())
    lanes_per_rank = std::max(lanes_per_rank, schedule.lanes.size());
  const auto lanes = static_cast<uint64_t>(network.lanes());
  const Schedule& first = network.schedule(0);
  const auto chunks = static_cast<size_t>(first.grid.chunks());
  const uint64_t cells =
      uint64_t{cellsPerRank(contractOf(first), chunks)} * static_cast<uint64_t>(network.ranks());
  return cells * (sizeof(Cell) + lanes_per_rank * sizeof(Count)) + lanes * lanes * sizeof(Count);
}

ValueRun::ValueRun(const Network& network, InPlace in_place)
    : network_(network),
      in_place_(in_place),
      contract_(contractOf(network.schedule(0))),
      chunks_(static_cast<size_t>(network.schedule(0).grid.chunks())),
      cells_per_rank_(cellsPerRank(contract_, chunks_)),
      values_((static_cast<size_t>(network.ranks()) + 63) / 64),
      clocks_(static_cast<size_t>(network.lanes())),
      connections_(network.connections().size()),
      scratch_(network.scratchQueues().size()),
      lanes_(static_cast<size_t>(network.lanes())),
      peer_accesses_(static_cast<size_t>(network.ranks())) {
  int32_t steps = 0;
  for (int32_t id = 0; id < network_.lanes(); ++id) {
    LaneState& state = lane(id);
    state.cursor = network_.cursor(id);
    state.first_step = steps;
    steps += network_.lane(id).stepCount();
    state.clock = clocks_.allocate();
    std::fill_n(clocks_.at(state.clock), clocks_.width(), Count{0});
  }
  for (const Schedule& schedule : network_.schedules())
    lanes_per_rank_ = std::max(lanes_per_rank_, schedule.lanes.size());
  waiters_.resize(static_cast<size_t>(steps));
  done_clock_.resize(static_cast<size_t>(steps), -1);
  countWaiters();
  fillCells();
}

void ValueRun::countWaiters() {
  for (int32_t id = 0; id < network_.lanes(); ++id) {
    for (StepCursor cursor = network_.cursor(id); !cursor.done(); cursor.next()) {
      const Wait& wait = cursor.step().wait;
      if (wait.lane < 0) continue;
      const LaneState& target = lane(network_.laneId(network_.positionOf(id), wait.lane));
      ++waiters_[static_cast<size_t>(target.first_step + cursor.waitStep())];
    }
  }
}

void ValueRun::fillCells() {
  cells_.resize(cells_per_rank_ * static_cast<size_t>(network_.ranks()));
  reads_.resize(cells_.size() * lanes_per_rank_);
  for (int32_t position = 0; position < network_.ranks(); ++position)
    for (int32_t chunk = 0; chunk < static_cast<int32_t>(chunks_); ++chunk)
      if (contract_.aliases(in_place_, position, chunk)) cell(position, chunk).value = kOwn;
}

Status ValueRun::fault(const Now& now, const char* format, ...) const {
  va_list arguments;
  va_start(arguments, format);
  const std::string what = formatStringV(format, arguments);
  va_end(arguments);
  return makeStatus(Code::kInvalidArgument, "schedule %s (chunk %d)%s: %s", where(now).c_str(), now.chunk,
                    in_place_ == InPlace::kYes ? ", in place" : "", what.c_str());
}

ValueRun::Now ValueRun::nowOf(int32_t lane_id) const {
  const StepCursor& cursor = lane(lane_id).cursor;
  return {lane_id, network_.positionOf(lane_id), cursor.chunk(), &cursor.step(),
          &network_.ports(lane_id, cursor)};
}

void ValueRun::wake(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  if (state.queued || state.cursor.done()) return;
  state.queued = true;
  work_.push_back(lane_id);
}

Status ValueRun::run() {
  for (int32_t id = network_.lanes() - 1; id >= 0; --id) wake(id);
  while (!work_.empty()) {
    const int32_t id = work_.back();
    work_.pop_back();
    lane(id).queued = false;
    HORING_TRY(runLane(id));
  }
  return checkEnd();
}

// Runs a lane as far as it can, then wakes the lanes that may wait for it.
Status ValueRun::runLane(int32_t lane_id) {
  LaneState& state = lane(lane_id);
  const int32_t before = state.cursor.index();
  while (!state.cursor.done()) {
    Now now = nowOf(lane_id);
    if (!ready(now)) break;
    HORING_TRY(execute(now));
    state.cursor.next();
  }
  if (state.cursor.index() == before) return {};
  const int32_t position = network_.positionOf(lane_id);
  const int32_t first = network_.laneId(position, 0);
  const int32_t count = static_cast<int32_t>(network_.schedule(position).lanes.size());
  for (int32_t other = first; other < first + count; ++other)
    if (other != lane_id) wake(other);
  return {};
}

bool ValueRun::ready(const Now& now) const {
  const Wait& wait = now.step->wait;
  if (wait.lane >= 0) {
    const LaneState& target = lane(network_.laneId(now.position, wait.lane));
    if (target.cursor.index() <= lane(now.lane_id).cursor.waitStep()) return false;
  }
  int32_t recv = now.ports->first_recv;
  for (const Source& source : now.step->sources) {
    if (takesMessage(source) && connections_[static_cast<size_t>(network_.recvConnection(recv++))].empty())
      return false;
    if (source.kind == Source::Kind::kScratch &&
        scratch_[static_cast<size_t>(network_.scratchId(now.position, source.index))].empty())
      return false;
  }
  return true;
}

// Merges the stamp's clock into the lane's clock. Consumes the stamp's reference to its clock.
void ValueRun::join(int32_t lane_id, const Stamp& stamp) {
  LaneState& state = lane(lane_id);
  if (stamp.lane == lane_id || clocks_.at(state.clock)[stamp.lane] >= stamp.steps) {
    clocks_.release(stamp.clock);
    return;
  }
  const int32_t target = clocks_.heldOnce(state.clock) ? state.clock : clocks_.allocate();
  const Count* mine = clocks_.at(state.clock);
  const Count* theirs = clocks_.at(stamp.clock);
  Count* joined = clocks_.at(target);
  const size_t width = clocks_.width();
  for (size_t i = 0; i < width; ++i) joined[i] = std::max(mine[i], theirs[i]);
  joined[stamp.lane] = std::max(joined[stamp.lane], stamp.steps);
  if (target != state.clock) clocks_.release(state.clock);
  state.clock = target;
  clocks_.release(stamp.clock);
}

Status ValueRun::execute(Now& now) {
  LaneState& state = lane(now.lane_id);
  if (now.step->wait.lane >= 0) {
    const int32_t target = network_.laneId(now.position, now.step->wait.lane);
    const int32_t waited = state.cursor.waitStep();
    const size_t step = static_cast<size_t>(lane(target).first_step + waited);
    const int32_t clock = --waiters_[step] == 0 ? done_clock_[step] : clocks_.hold(done_clock_[step]);
    join(now.lane_id, {clock, target, static_cast<Count>(waited + 1)});
  }
  int32_t value = kNothing;
  HORING_TRY(now.step->isSignal() ? takeSignals(now) : fold(now, value));
  if (now.step->completes) HORING_TRY(complete(now, value));
  if (now.step->keep.kind == Keep::Kind::kOut) HORING_TRY(keepOut(now, now.position, value));
  if (now.step->keep.kind == Keep::Kind::kEveryOut) HORING_TRY(keepInEvery(now, value));
  if (now.step->keep.kind == Keep::Kind::kScratch) {
    const int32_t queue = network_.scratchId(now.position, now.step->keep.index);
    parcels_.push(scratch_[static_cast<size_t>(queue)], {values_.hold(value), stampAfter(now)});
  }
  for (const int32_t id : network_.sendConnections(*now.ports)) {
    const ConnectionEnds& ends = network_.connections()[static_cast<size_t>(id)];
    parcels_.push(connections_[static_cast<size_t>(id)],
                  {value == kNothing ? kNothing : values_.hold(value), stampAfter(now)});
    if (ends.receives) wake(network_.laneId(ends.to, ends.lane));
  }
  if (value != kNothing) values_.release(value);
  const size_t step = static_cast<size_t>(state.first_step + state.cursor.index());
  if (waiters_[step] > 0) done_clock_[step] = clocks_.hold(state.clock);
  return {};
}

// A new value (count 1): position `position`'s contribution to `chunk`.
int32_t ValueRun::ownValue(int32_t position, int32_t chunk) {
  const int32_t value = values_.allocate();
  if (static_cast<size_t>(value) >= value_chunk_.size()) {
    value_chunk_.resize(static_cast<size_t>(value) + 1);
    value_completed_.resize(static_cast<size_t>(value) + 1);
  }
  value_chunk_[static_cast<size_t>(value)] = chunk;
  value_completed_[static_cast<size_t>(value)] = false;
  uint64_t* ranks = values_.at(value);
  std::fill_n(ranks, values_.width(), uint64_t{0});
  ranks[position / 64] = uint64_t{1} << (position % 64);
  return value;
}

// `value`: with a new reference for the caller.
Status ValueRun::fold(const Now& now, int32_t& value) {
  int32_t recv = now.ports->first_recv;
  for (const Source& source : now.step->sources) {
    int32_t operand = kNothing;
    HORING_TRY(readSource(now, source, recv, operand));
    if (takesMessage(source)) ++recv;
    if (chunkOf(operand) != now.chunk)
      return fault(now, "gets a value of chunk %d from %s %d", chunkOf(operand),
                   source.kind == Source::Kind::kRecv ? "position" : "scratch queue", source.index);
    if (value == kNothing) {
      value = operand;
    } else {
      HORING_TRY(mergeInto(now, value, operand));
    }
  }
  return {};
}

Status ValueRun::readSource(const Now& now, const Source& source, int32_t recv_index, int32_t& value) {
  if (source.kind == Source::Kind::kPeerIn) return readPeer(now, source.index, value);
  if (source.kind == Source::Kind::kIn || source.kind == Source::Kind::kOut)
    return readMemory(now, source, value);
  auto& queue = source.kind == Source::Kind::kRecv
                    ? connections_[static_cast<size_t>(network_.recvConnection(recv_index))]
                    : scratch_[static_cast<size_t>(network_.scratchId(now.position, source.index))];
  const Parcel parcel = parcels_.pop(queue);
  join(now.lane_id, parcel.stamp);
  value = parcel.value;
  return value == kNothing ? fault(now, "gets a signal from position %d where a value is due", source.index)
                           : Status();
}

Status ValueRun::takeSignals(const Now& now) {
  for (int32_t i = 0; i < static_cast<int32_t>(now.step->sources.size()); ++i) {
    const int32_t id = network_.recvConnection(now.ports->first_recv + i);
    const Parcel parcel = parcels_.pop(connections_[static_cast<size_t>(id)]);
    join(now.lane_id, parcel.stamp);
    if (parcel.value != kNothing)
      return fault(now, "gets a value of chunk %d from position %d where a signal is due",
                   chunkOf(parcel.value), now.step->sources[static_cast<size_t>(i)].index);
  }
  return {};
}

// Whether the lane knows, directly or through others, that the position has begun.
bool ValueRun::hasEntered(const Now& now, int32_t peer) {
  const Count* known = clocks_.at(lane(now.lane_id).clock);
  const auto lanes = static_cast<int32_t>(network_.schedule(peer).lanes.size());
  const Count* first = known + network_.laneId(peer, 0);
  return std::any_of(first, first + lanes, [](Count steps) { return steps > 0; });
}

Status ValueRun::readPeer(const Now& now, int32_t peer, int32_t& value) {
  if (!contract_.inputHas(peer, now.chunk))
    return fault(now, "reads a chunk that the input of position %d does not have", peer);
  if (!hasEntered(now, peer))
    return fault(now, "reads the input of position %d without a signal that it is ready", peer);
  const Cell* from = contract_.aliases(in_place_, peer, now.chunk) ? &cell(peer, now.chunk) : nullptr;
  if (from && from->value != kOwn)
    return fault(
        now,
        "reads the input chunk of position %d, where position %d, lane %d, step %d writes the output over it",
        peer, network_.positionOf(from->write_lane), network_.laneOf(from->write_lane),
        from->write_steps - 1);
  peer_accesses_[static_cast<size_t>(peer)].push_back(
      {now.chunk, now.lane_id, static_cast<Count>(lane(now.lane_id).cursor.index() + 1)});
  value = ownValue(peer, now.chunk);
  return {};
}

Status ValueRun::readMemory(const Now& now, const Source& source, int32_t& value) {
  const bool is_input = source.kind == Source::Kind::kIn;
  if (!(is_input ? contract_.inputHas(now.position, now.chunk)
                 : contract_.outputHas(now.position, now.chunk)))
    return fault(now, "reads a chunk that the %s of %s does not have", is_input ? "input" : "output",
                 collectiveName(network_.schedule(0).collective));
  if (is_input && !contract_.aliases(in_place_, now.position, now.chunk)) {
    value = ownValue(now.position, now.chunk);
    return {};
  }
  const Cell& from = cell(now.position, now.chunk);
  // In an in-place all-gather, the caller's data in the output is part of the result. In a reduction it is an operand, and only a read of
  // `in` scales it.
  const bool gathers = !contract_.folds();
  if (from.value == kNothing || (from.value == kOwn && !is_input && !gathers))
    return fault(now, "reads the output chunk before anything is written there");
  if (from.write_lane >= 0 && !knows(now, from.write_lane, from.write_steps))
    return fault(now, "data race: reads the output chunk, written by %s, without waiting for it",
                 whose(now, from.write_lane, from.write_steps).c_str());
  if (is_input && from.value != kOwn && !gathers)
    return fault(now, "reads the input chunk after %s has written the output over it",
                 whose(now, from.write_lane, from.write_steps).c_str());
  reads_[cellIndex(now.position, now.chunk) * lanes_per_rank_ +
         static_cast<size_t>(network_.laneOf(now.lane_id))] =
      static_cast<Count>(lane(now.lane_id).cursor.index() + 1);
  value = from.value == kOwn ? ownValue(now.position, now.chunk) : values_.hold(from.value);
  return {};
}

// Replaces a shared value by a copy, so that it can be changed.
void ValueRun::makeSole(int32_t& value) {
  if (values_.heldOnce(value)) return;
  const int32_t copy = ownValue(0, chunkOf(value));
  std::copy_n(values_.at(value), values_.width(), values_.at(copy));
  value_completed_[static_cast<size_t>(copy)] = value_completed_[static_cast<size_t>(value)];
  values_.release(value);
  value = copy;
}

// accumulator = accumulator (+) operand; consumes the caller's references to both and returns one to the result.
Status ValueRun::mergeInto(const Now& now, int32_t& accumulator, int32_t operand) {
  makeSole(accumulator);
  uint64_t* into = values_.at(accumulator);
  const uint64_t* from = values_.at(operand);
  for (size_t word = 0; word < values_.width(); ++word) {
    if (const uint64_t both = into[word] & from[word])
      return fault(now, "folds the contribution of position %zu in twice",
                   word * 64 + static_cast<size_t>(std::countr_zero(both)));
    into[word] |= from[word];
  }
  values_.release(operand);
  return {};
}

Status ValueRun::complete(const Now& now, int32_t& value) {
  if (!contract_.folds()) return fault(now, "completes a chunk, but nothing is folded here");
  if (value_completed_[static_cast<size_t>(value)]) return fault(now, "completes the chunk a second time");
  const uint64_t* ranks = values_.at(value);
  for (int32_t rank = 0; rank < network_.ranks(); ++rank)
    if (!(ranks[rank / 64] >> (rank % 64) & 1))
      return fault(now, "completes the chunk without the contribution of position %d", rank);
  makeSole(value);
  value_completed_[static_cast<size_t>(value)] = true;
  return {};
}

Status ValueRun::keepOut(const Now& now, int32_t owner, int32_t value) {
  if (!contract_.outputHas(owner, now.chunk))
    return fault(now, "writes a chunk that the output of %s does not have",
                 collectiveName(network_.schedule(0).collective));
  Cell& into = cell(owner, now.chunk);
  // Copying a chunk onto itself is not an access.
  const bool is_itself = owner == now.position && into.value == kOwn && !contract_.folds() &&
                         now.step->sources.size() == 1 && now.step->sources[0].kind == Source::Kind::kIn;
  if (is_itself) return {};
  HORING_TRY(checkPeerReads(now, owner));
  if (into.write_lane >= 0 && !knows(now, into.write_lane, into.write_steps))
    return fault(now, "data race: writes the output chunk, as %s does, and neither waits for the other",
                 whose(now, into.write_lane, into.write_steps).c_str());
  Count* reads = reads_.data() + cellIndex(owner, now.chunk) * lanes_per_rank_;
  const auto lanes = static_cast<int32_t>(network_.schedule(owner).lanes.size());
  for (int32_t other = 0; other < lanes; ++other) {
    const int32_t reader = network_.laneId(owner, other);
    if (reads[other] > 0 && !knows(now, reader, reads[other]))
      return fault(now, "data race: writes the output chunk while %s may still read it",
                   whose(now, reader, reads[other]).c_str());
    reads[other] = 0;
  }
  if (into.value >= 0) values_.release(into.value);
  into = {values_.hold(value), static_cast<Count>(lane(now.lane_id).cursor.index() + 1), now.lane_id};
  return {};
}

Status ValueRun::keepInEvery(const Now& now, int32_t value) {
  for (int32_t owner = 0; owner < network_.ranks(); ++owner) {
    if (owner != now.position && !hasEntered(now, owner))
      return fault(now, "writes the output of position %d without a signal that it is ready", owner);
    HORING_TRY(keepOut(now, owner, value));
    if (owner != now.position)
      peer_accesses_[static_cast<size_t>(owner)].push_back(
          {now.chunk, now.lane_id, static_cast<Count>(lane(now.lane_id).cursor.index() + 1), true});
  }
  return {};
}

// The step overwrites the owner's input, in place: all peers' reads must be known to be complete.
Status ValueRun::checkPeerReads(const Now& now, int32_t owner) {
  if (!contract_.aliases(in_place_, owner, now.chunk)) return {};
  for (const PeerAccess& read : peer_accesses_[static_cast<size_t>(owner)])
    if (!read.writes && read.chunk == now.chunk && !knows(now, read.lane, read.steps))
      return fault(
          now,
          "data race: writes the output chunk over the input while position %d, lane %d, step %d may "
          "still read it",
          network_.positionOf(read.lane), network_.laneOf(read.lane), read.steps - 1);
  return {};
}

// An operation ends when all its lanes have: one of them must know of every access to its memory.
Status ValueRun::checkReleases() {
  for (int32_t position = 0; position < network_.ranks(); ++position) {
    const Schedule& schedule = network_.schedule(position);
    for (const PeerAccess& access : peer_accesses_[static_cast<size_t>(position)]) {
      bool is_known = false;
      for (int32_t l = 0; l < static_cast<int32_t>(schedule.lanes.size()); ++l)
        is_known =
            is_known || clocks_.at(lane(network_.laneId(position, l)).clock)[access.lane] >= access.steps;
      if (!is_known)
        return makeStatus(Code::kInvalidArgument,
                          "schedule %s %s: position %d may end while position %d, lane %d, step %d still %s "
                          "chunk %d of its %s",
                          schedule.algorithm.c_str(), collectiveName(schedule.collective), position,
                          network_.positionOf(access.lane), network_.laneOf(access.lane), access.steps - 1,
                          access.writes ? "writes" : "reads", access.chunk,
                          access.writes ? "output" : "input");
    }
  }
  return {};
}

// The obstacle of a lane that has not ended.
Blockage ValueRun::blockageOf(int32_t lane_id) const {
  if (lane(lane_id).cursor.done())
    return {formatString("position %d, lane %d has ended", network_.positionOf(lane_id),
                         network_.laneOf(lane_id)),
            -1};
  const Now now = nowOf(lane_id);
  const std::string who = formatString("position %d, lane %d, step %d waits for ", now.position,
                                       network_.laneOf(lane_id), lane(lane_id).cursor.index());
  const Wait& wait = now.step->wait;
  if (wait.lane >= 0) {
    const int32_t target = network_.laneId(now.position, wait.lane);
    const int32_t step = lane(lane_id).cursor.waitStep();
    if (lane(target).cursor.index() <= step)
      return {who + formatString("its lane %d, step %d", wait.lane, step), target};
  }
  int32_t recv = now.ports->first_recv;
  for (const Source& source : now.step->sources) {
    if (takesMessage(source)) {
      const size_t id = static_cast<size_t>(network_.recvConnection(recv++));
      const ConnectionEnds& ends = network_.connections()[id];
      if (connections_[id].empty())
        return {who + formatString("a message from position %d", ends.from),
                ends.sends ? network_.laneId(ends.from, ends.lane) : -1};
    } else if (source.kind == Source::Kind::kScratch) {
      const size_t id = static_cast<size_t>(network_.scratchId(now.position, source.index));
      if (scratch_[id].empty())
        return {who + formatString("a value in scratch queue %d", source.index),
                network_.scratchQueues()[id].producer};
    }
  }
  return {who + "nothing", -1};
}

Status ValueRun::checkEnd() {
  const Schedule& first = network_.schedule(0);
  for (int32_t id = 0; id < network_.lanes(); ++id)
    if (!lane(id).cursor.done())
      return makeStatus(Code::kInvalidArgument, "schedule %s %s never ends: %s", first.algorithm.c_str(),
                        collectiveName(first.collective),
                        describeBlockage(id, [this](int32_t at) { return blockageOf(at); }).c_str());
  for (size_t id = 0; id < connections_.size(); ++id) {
    const ConnectionEnds& ends = network_.connections()[id];
    if (connections_[id].empty()) continue;
    const int32_t value = parcels_.front(connections_[id]).value;
    return makeStatus(Code::kInvalidArgument,
                      "schedule %s %s: position %d, lane %d sends %s to position %d, which never receives it",
                      first.algorithm.c_str(), collectiveName(first.collective), ends.from, ends.lane,
                      value == kNothing ? "a signal" : formatString("chunk %d", chunkOf(value)).c_str(),
                      ends.to);
  }
  HORING_TRY(checkReleases());
  for (int32_t position = 0; position < network_.ranks(); ++position)
    for (int32_t queue = 0; queue < network_.schedule(position).scratch_queues; ++queue) {
      const auto& fifo = scratch_[static_cast<size_t>(network_.scratchId(position, queue))];
      if (!fifo.empty())
        return makeStatus(Code::kInvalidArgument,
                          "schedule %s %s, position %d: a value of chunk %d is left in scratch queue %d",
                          first.algorithm.c_str(), collectiveName(first.collective), position,
                          chunkOf(parcels_.front(fifo).value), queue);
    }
  for (int32_t position = 0; position < network_.ranks(); ++position)
    for (int32_t chunk = 0; chunk < static_cast<int32_t>(chunks_); ++chunk)
      if (contract_.outputHas(position, chunk)) HORING_TRY(checkResult(position, chunk));
  return {};
}

Status ValueRun::checkResult(int32_t position, int32_t chunk) {
  const Schedule& schedule = network_.schedule(position);
  const int32_t value = cell(position, chunk).value;
  const auto wrong = [&](const std::string& what) {
    return makeStatus(Code::kInvalidArgument, "schedule %s %s, position %d%s: output chunk %d %s",
                      schedule.algorithm.c_str(), collectiveName(schedule.collective), position,
                      in_place_ == InPlace::kYes ? ", in place" : "", chunk, what.c_str());
  };
  if (value == kNothing) return wrong("is never written");
  const bool all = contract_.folds();
  if (value == kOwn) {
    if (all ? network_.ranks() == 1 : contract_.sourceOf(chunk) == position) return {};
    return wrong("is never written");
  }
  const uint64_t* ranks = values_.at(value);
  for (int32_t rank = 0; rank < network_.ranks(); ++rank) {
    const bool is_in = ranks[rank / 64] >> (rank % 64) & 1;
    if (is_in == (all || rank == contract_.sourceOf(chunk))) continue;
    return wrong(formatString("ends %s the contribution of position %d", is_in ? "with" : "without", rank));
  }
  if (all && !value_completed_[static_cast<size_t>(value)]) return wrong("is never completed");
  return {};
}

Status verifyValues(std::span<const Schedule> all_ranks, InPlace in_place) {
  HORING_ASSIGN(const Network network, Network::build(all_ranks));
  if (const uint64_t bytes = ValueRun::bytesOf(network); bytes > kMostBytes)
    return makeStatus(Code::kInvalidArgument,
                      "a proof of %d ranks, %d chunks and %d lanes takes %llu MiB; at most %llu are granted",
                      network.ranks(), network.schedule(0).grid.chunks(), network.lanes(),
                      static_cast<unsigned long long>(bytes >> 20),
                      static_cast<unsigned long long>(kMostBytes >> 20));
  return ValueRun(network, in_place).run();
}

}  // namespace horing
