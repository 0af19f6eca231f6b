#pragma once
// Symbolic execution with happens-before. Any order of execution that respects the schedules will do: their
// network is deterministic, so all orders give the same values, and the vector clocks say which events every
// order has in common.
//
// A clock has one entry per lane of any rank: the number of that lane's steps that are known to have happened. Consecutive sends share one
// clock row until the lane learns something new, so direct exchange costs no more than a ring.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/network.h"
#include "schedule/symbol_pool.h"
#include "schedule/verify.h"

namespace horing {

// For one run.
class ValueRun {
 public:
  // The memory of the largest arrays of a run: cells with the reads of each lane, and a clock for each lane.
  static uint64_t bytesOf(const Network& network);

  // The network must outlive it.
  ValueRun(const Network& network, InPlace in_place);
  Status run();

 private:
  using Count = int16_t;
  static_assert(kMaxLaneSteps <= INT16_MAX);

  // The content of a cell: nothing yet, or the position's own contribution.
  static constexpr int32_t kNothing = -1;
  static constexpr int32_t kOwn = -2;

  // A point in time: `lane` (id) had done `steps` steps and had clock `clock`.
  struct Stamp {
    int32_t clock = -1;
    int32_t lane = -1;
    Count steps = 0;
  };

  // An entry of a connection or a scratch queue.
  struct Parcel {
    int32_t value;  // kNothing: a signal
    Stamp stamp;
  };

  // One chunk of the output (and of the input, where they are the same memory) of one position.
  struct Cell {
    int32_t value = kNothing;
    Count write_steps = 0;    // the last write: after this many steps of write_lane
    int32_t write_lane = -1;  // id, of any position; -1: before the start
  };

  // A read of a position's input, or a write to its output, by another position.
  struct PeerAccess {
    int32_t chunk = 0;
    int32_t lane = -1;  // id, of the accessing lane
    Count steps = 0;    // that lane's steps, including the access
    bool writes = false;
  };

  struct LaneState {
    StepCursor cursor;
    int32_t clock = -1;
    int32_t first_step = 0;  // index into the steps of all lanes
    bool queued = false;
  };
  // The step at hand.
  struct Now {
    int32_t lane_id = 0;
    int32_t position = 0;
    int32_t chunk = 0;
    const Step* step = nullptr;
    const StepPorts* ports = nullptr;
  };

  // The most output chunks of one position.
  static size_t cellsPerRank(const Contract& contract, size_t chunks);
  void countWaiters();
  void fillCells();
  void wake(int32_t lane_id);
  Status runLane(int32_t lane_id);
  bool ready(const Now& now) const;
  Status execute(Now& now);
  Status fold(const Now& now, int32_t& value);
  Status readSource(const Now& now, const Source& source, int32_t recv_index, int32_t& value);
  Status readMemory(const Now& now, const Source& source, int32_t& value);
  Status readPeer(const Now& now, int32_t peer, int32_t& value);
  bool hasEntered(const Now& now, int32_t peer);
  Status takeSignals(const Now& now);
  Status mergeInto(const Now& now, int32_t& accumulator, int32_t operand);
  Status complete(const Now& now, int32_t& value);
  Status keepOut(const Now& now, int32_t owner, int32_t value);
  Status keepInEvery(const Now& now, int32_t value);
  Status checkPeerReads(const Now& now, int32_t owner);
  Status checkEnd();
  Status checkReleases();
  Status checkResult(int32_t position, int32_t chunk);
  Blockage blockageOf(int32_t lane_id) const;

  LaneState& lane(int32_t id) { return lanes_[static_cast<size_t>(id)]; }
  const LaneState& lane(int32_t id) const { return lanes_[static_cast<size_t>(id)]; }
  Now nowOf(int32_t lane_id) const;
  Cell& cell(int32_t position, int32_t chunk) { return cells_[cellIndex(position, chunk)]; }
  size_t cellIndex(int32_t position, int32_t chunk) const {
    const auto at = static_cast<size_t>(position);
    if (cells_per_rank_ == 1) return at;
    if (contract_.out == ChunkSet::kColumn)
      return at * cells_per_rank_ + static_cast<size_t>(chunk / contract_.columns);
    return at * cells_per_rank_ + static_cast<size_t>(chunk);
  }
  Stamp stampAfter(const Now& now) {
    return {clocks_.hold(lane(now.lane_id).clock), now.lane_id,
            static_cast<Count>(lane(now.lane_id).cursor.index() + 1)};
  }
  void join(int32_t lane_id, const Stamp& stamp);
  bool knows(const Now& now, int32_t other, Count steps) {
    return other == now.lane_id || clocks_.at(lane(now.lane_id).clock)[other] >= steps;
  }
  // "lane 1, step 3"; with the position if it is another one.
  std::string whose(const Now& now, int32_t lane_id, Count steps) const {
    const int32_t position = network_.positionOf(lane_id);
    return (position == now.position ? std::string() : formatString("position %d, ", position)) +
           formatString("lane %d, step %d", network_.laneOf(lane_id), steps - 1);
  }
  int32_t ownValue(int32_t position, int32_t chunk);
  void makeSole(int32_t& value);
  int32_t chunkOf(int32_t value) const { return value_chunk_[static_cast<size_t>(value)]; }
  std::string where(const Now& now) const {
    return stepName(network_.schedule(now.position), network_.laneOf(now.lane_id),
                    lane(now.lane_id).cursor.index());
  }
  Status fault(const Now& now, const char* format, ...) const __attribute__((format(printf, 3, 4)));

  const Network& network_;
  const InPlace in_place_;
  const Contract contract_;
  const size_t chunks_;
  const size_t cells_per_rank_;
  size_t lanes_per_rank_ = 0;
  RowPool<uint64_t> values_;
  std::vector<int32_t> value_chunk_;
  std::vector<uint8_t> value_completed_;
  RowPool<Count> clocks_;
  FifoPool<Parcel> parcels_;
  std::vector<FifoPool<Parcel>::Fifo> connections_, scratch_;
  std::vector<LaneState> lanes_;
  std::vector<Cell> cells_;
  std::vector<Count>
      reads_;  // [cell][lane of its rank]: steps of that lane up to its last read since the last write
  std::vector<std::vector<PeerAccess>> peer_accesses_;  // [position]: to its memory
  std::vector<uint32_t> waiters_;                       // [step]: pending waits for it
  std::vector<int32_t> done_clock_;  // [step]: its lane's clock then, while waits are pending
  std::vector<int32_t> work_;
};

}  // namespace horing
