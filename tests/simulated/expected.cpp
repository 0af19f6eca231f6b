#include "expected.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "base/check.h"
#include "schedule/postcondition.h"

namespace horing::simulated {

namespace {

// The value of a chunk; a move shares it.
using Value = std::shared_ptr<const Bytes>;

class Run {
 public:
  Run(const CollectiveCall& call, const test::ReferenceFold& fold, const std::vector<Bytes>& inputs)
      : fold_(fold), size_(dataTypeBytes(call.type)), inputs_(inputs), tables_(call.schedules.size()) {
    for (const Schedule& schedule : call.schedules) {
      layouts_.push_back(call.layout(layouts_.size(), tables_[layouts_.size()]));
      outputs_.emplace_back(call.outputBytes(outputs_.size()), kUnwritten);
      scratch_.emplace_back(static_cast<size_t>(schedule.scratch_queues));
      for (size_t lane = 0; lane < schedule.lanes.size(); ++lane)
        lanes_.push_back({&schedule, lane, {schedule.lanes[lane], schedule.grid}});
      first_lane_.push_back(lanes_.size() - schedule.lanes.size());
    }
  }

  std::vector<Bytes> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (LaneAt& lane : lanes_)
        while (ready(lane)) {
          step(lane);
          moved = true;
        }
    }
    for (const LaneAt& lane : lanes_) HORING_CHECK(lane.cursor.done());
    return std::move(outputs_);
  }

 private:
  struct LaneAt {
    const Schedule* schedule;
    size_t number;
    StepCursor cursor;
    size_t position() const { return static_cast<size_t>(schedule->position); }
  };
  using Queue = std::deque<Value>;

  Queue& queue(const LaneAt& lane, const Source& source) {
    const auto index = static_cast<size_t>(source.index);
    if (source.kind == Source::Kind::kScratch) return scratch_[lane.position()][index];
    return wires_[{index, lane.position(), lane.number}];
  }
  static bool isQueue(const Source& source) {
    return takesMessage(source) || source.kind == Source::Kind::kScratch;
  }

  bool ready(const LaneAt& lane) {
    if (lane.cursor.done()) return false;
    const Step& step = lane.cursor.step();
    if (step.wait.lane >= 0) {
      const LaneAt& other = lanes_[first_lane_[lane.position()] + static_cast<size_t>(step.wait.lane)];
      if (!other.cursor.done() && other.cursor.index() <= lane.cursor.waitStep()) return false;
    }
    return std::all_of(step.sources.begin(), step.sources.end(), [&](const Source& source) {
      return !isQueue(source) || !queue(lane, source).empty();
    });
  }

  Value read(const LaneAt& lane, const Source& source, int32_t chunk) {
    if (isQueue(source)) {
      Queue& from = queue(lane, source);
      Value value = std::move(from.front());
      from.pop_front();
      return value;
    }
    const bool is_input = readsInput(source);
    const bool is_peer = source.kind == Source::Kind::kPeerIn;
    const size_t owner = is_peer ? static_cast<size_t>(source.index) : lane.position();
    const Bytes& buffer = is_input ? inputs_[owner] : outputs_[owner];
    const Layout& layout = layouts_[owner];
    const size_t at = (is_input ? layout.inputOffset(chunk) : layout.outputOffset(chunk)) * size_;
    const std::byte* begin = buffer.data() + at;
    return std::make_shared<const Bytes>(begin, begin + layout.count(chunk) * size_);
  }

  void signal(LaneAt& lane, const Step& step) {
    for (const Source& source : step.sources) queue(lane, source).pop_front();
    for (const int32_t peer : step.signal_to)
      wires_[{lane.position(), static_cast<size_t>(peer), lane.number}].push_back(nullptr);
    lane.cursor.next();
  }

  void step(LaneAt& lane) {
    const Step& step = lane.cursor.step();
    const int32_t chunk = lane.cursor.chunk();
    if (step.isSignal()) return signal(lane, step);
    std::vector<Value> operands;
    test::ReferenceOperands element;
    element.ranks = lane.schedule->ranks;
    element.number = factorAt(lane.position()).number;
    element.integer = factorAt(lane.position()).integer;
    element.is_final = step.completes;
    for (const Source& source : step.sources) {
      operands.push_back(read(lane, source, chunk));
      element.is_input.push_back(readsInput(source));
    }
    const Layout& layout = layouts_[lane.position()];
    Value value = !contractOf(lane.schedule->collective).folds() || layout.count(chunk) == 0
                      ? operands[0]
                      : fold(operands, element);
    const bool in_every = step.keep.kind == Keep::Kind::kEveryOut;
    for (size_t owner = 0; owner < outputs_.size(); ++owner)
      if (keepsOut(step.keep) && (in_every || owner == lane.position()))
        std::copy(value->begin(), value->end(),
                  outputs_[owner].data() + layouts_[owner].outputOffset(chunk) * size_);
    if (step.keep.kind == Keep::Kind::kScratch)
      scratch_[lane.position()][static_cast<size_t>(step.keep.index)].push_back(value);
    if (step.send_to >= 0)
      wires_[{lane.position(), static_cast<size_t>(step.send_to), lane.number}].push_back(value);
    lane.cursor.next();
  }

  Value fold(const std::vector<Value>& operands, test::ReferenceOperands& element) const {
    Bytes folded(operands[0]->size());
    element.bits.resize(operands.size());
    for (size_t at = 0; at < folded.size(); at += size_) {
      for (size_t s = 0; s < operands.size(); ++s) {
        element.bits[s] = 0;
        std::memcpy(&element.bits[s], operands[s]->data() + at, size_);
      }
      const uint64_t bits = fold_(element);
      std::memcpy(folded.data() + at, &bits, size_);
    }
    return std::make_shared<const Bytes>(std::move(folded));
  }

  const test::ReferenceFold& fold_;
  size_t size_;
  const std::vector<Bytes>& inputs_;
  std::vector<std::vector<size_t>> tables_;  // by position, as the next two
  std::vector<Layout> layouts_;
  std::vector<Bytes> outputs_;
  std::vector<std::vector<Queue>> scratch_;                    // [position][queue]
  std::vector<LaneAt> lanes_;                                  // of all positions
  std::vector<size_t> first_lane_;                             // of each position
  std::map<std::tuple<size_t, size_t, size_t>, Queue> wires_;  // from, to, lane
};

// Elements up to the end of the last block.
size_t endOf(const Blocks& blocks, size_t ranks) {
  return blocks.offsets[ranks - 1] + blocks.counts[ranks - 1];
}

// Of a buffer whose blocks have one size.
size_t bufferBytes(const CollectiveCall& call, size_t position, ChunkSet set, size_t count) {
  const Schedule& schedule = call.schedules[position];
  if (set == ChunkSet::kEveryAtRoot && schedule.position != contractOf(schedule).root) return 0;
  return blocksIn(set, schedule.collective, schedule.ranks) * count * dataTypeBytes(call.type);
}

}  // namespace

Extent CollectiveCall::extent(size_t position, std::vector<size_t>& tables) const {
  const Schedule& schedule = schedules[position];
  const Contract contract = contractOf(schedule);
  const auto ranks = static_cast<size_t>(schedule.ranks);
  const int32_t me = rank_of_position[position];
  if (!block) return {.count = count};
  tables.resize(4 * ranks);
  const bool has_pairs = contract.in == ChunkSet::kRow;
  const auto fill = [&](size_t at, bool sends) -> Blocks {
    size_t end = 0;
    for (int32_t rank = 0; rank < schedule.ranks; ++rank) {
      const auto index = static_cast<size_t>(rank);
      tables[at + index] = has_pairs && sends ? block(me, rank) : block(rank, me);
      tables[at + ranks + index] = end += index % 3;
      end += tables[at + index];
    }
    return {tables.data() + at, tables.data() + at + ranks};
  };
  const auto knows = [&](ChunkSet set) {
    return set != ChunkSet::kOwn && (set != ChunkSet::kEveryAtRoot || schedule.position == contract.root);
  };
  Extent extent{.count = block(me, me), .uneven = true};
  if (knows(contract.in)) extent.input = fill(0, true);
  if (knows(contract.out)) extent.output = fill(2 * ranks, false);
  return extent;
}

size_t CollectiveCall::inputBytes(size_t position) const {
  const Contract contract = contractOf(schedules[position]);
  std::vector<size_t> tables;
  const Extent own = extent(position, tables);
  if (own.input.given()) return endOf(own.input, schedules.size()) * dataTypeBytes(type);
  return bufferBytes(*this, position, contract.in, own.count);
}

size_t CollectiveCall::outputBytes(size_t position) const {
  const Contract contract = contractOf(schedules[position]);
  std::vector<size_t> tables;
  const Extent own = extent(position, tables);
  if (own.output.given()) return endOf(own.output, schedules.size()) * dataTypeBytes(type);
  return bufferBytes(*this, position, contract.out, own.count);
}

const test::ReferenceFold& Expectation::fold(DataType type, RedOp op) {
  auto& fold = folds_[static_cast<size_t>(type) * kRedOps + static_cast<size_t>(op)];
  if (!fold) fold = std::make_unique<test::ReferenceFold>(type, op);
  return *fold;
}

std::vector<Bytes> Expectation::outputs(const CollectiveCall& call, const std::vector<Bytes>& inputs) {
  return Run(call, fold(call.type, call.op), inputs).run();
}

}  // namespace horing::simulated
