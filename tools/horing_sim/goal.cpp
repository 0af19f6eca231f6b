#include "goal.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "schedule/layout.h"

namespace horing {

namespace {

// One rank's operations. A slice of a step is `calc`, after what it receives, waits for, and the slice before it.
class RankWriter {
 public:
  RankWriter(const Schedule& schedule, const FoldedNetwork& network, const MachinePipes& machine,
             const Pipelining& plan, size_t count)
      : schedule_(schedule), network_(network), machine_(machine), window_(plan.window) {
    Extent extent;
    extent.count = count;
    layout_ = Layout::make(schedule, extent, nullptr, 16);
    const size_t largest = layout_.largestChunk();
    slicing_ = slicingOf(plan, schedule, largest, kElementBytes);
    slices_ = static_cast<int32_t>(slicing_.slicesOf(largest));
  }

  std::string write() {
    text_ = formatString("rank %d {\n", schedule_.position);
    for (int32_t lane = 0; lane < network_.lanesOfRank(); ++lane) nameSlices(lane);
    for (int32_t lane = 0; lane < network_.lanesOfRank(); ++lane) writeLane(lane);
    return text_ + "}\n\n";
  }

 private:
  static constexpr size_t kElementBytes = 4;
  struct SliceOf {
    int32_t lane, step, slice;
    auto operator<=>(const SliceOf&) const = default;
  };

  template <typename Visit>
  void forEachSlice(int32_t lane_number, const Visit& visit) {
    const Lane& lane = network_.lane(network_.laneId(schedule_.position, lane_number));
    const bool is_signals = lane.isSignals();
    const int32_t slices = is_signals ? 1 : slices_, window = is_signals ? 1 : window_;
    for (int32_t first = 0; first < slices; first += window)
      for (StepCursor cursor(lane, schedule_.grid); !cursor.done(); cursor.next())
        for (int32_t slice = first; slice < std::min(first + window, slices); ++slice) {
          const size_t count = is_signals ? 0 : elementsOf(cursor.chunk(), slice);
          if (count > 0 || is_signals) visit(cursor, slice, count * kElementBytes);
        }
  }

  size_t elementsOf(int32_t chunk, int32_t slice) const {
    const size_t count = layout_.count(chunk);
    return slicing_.ofChunk(layout_, count, kElementBytes).range(count, slice).count;
  }

  // Labels of the computations, which operations of other lanes name before they are written.
  void nameSlices(int32_t lane_number) {
    int32_t fill[kMaxScratch] = {};
    forEachSlice(lane_number, [&](const StepCursor& cursor, int32_t slice, size_t) {
      const int32_t label = ++labels_;
      calc_[{lane_number, cursor.index(), slice}] = label;
      const Keep& keep = cursor.step().keep;
      if (keep.kind == Keep::Kind::kScratch && keep.index < kMaxScratch)
        scratch_[{keep.index, 0, fill[keep.index]++}] = label;
    });
  }

  void writeLane(int32_t lane_number) {
    int32_t before = 0, taken[kMaxScratch] = {};
    const int32_t id = network_.laneId(schedule_.position, lane_number);
    forEachSlice(lane_number, [&](const StepCursor& cursor, int32_t slice, size_t bytes) {
      const Step& step = cursor.step();
      const int32_t label = calc_[{lane_number, cursor.index(), slice}];
      const StepCost cost = machine_.costOf(step, network_.stepWires(id, cursor.written()));
      const double nanoseconds = (cost.fixed + cost.per_byte * static_cast<double>(bytes)) / 1000;
      text_ += formatString("l%d: calc %lld\n", label, std::llround(nanoseconds));
      if (before > 0) require(label, before);
      if (step.wait.lane >= 0) requireWait(label, step.wait.lane, cursor.waitStep(), slice);
      for (const Source& source : step.sources) {
        if (takesMessage(source)) {
          receive(label, source.index, lane_number, bytes);
          // In sequence: LogGOPSim loses operations if it starts with many at once.
          if (before > 0) require(labels_, before);
        }
        if (source.kind == Source::Kind::kScratch && source.index < kMaxScratch)
          require(label, scratch_[{source.index, 0, taken[source.index]++}]);
      }
      if (step.send_to >= 0) send(label, step.send_to, lane_number, bytes);
      for (const int32_t peer : step.signal_to) send(label, peer, lane_number, bytes);
      before = label;
    });
  }

  void requireWait(int32_t label, int32_t lane, int32_t step, int32_t slice) {
    const bool is_signals = schedule_.lanes[static_cast<size_t>(lane)].isSignals();
    // A slice that does not exist waits for nothing.
    const auto found = calc_.find({lane, step, is_signals ? 0 : slice});
    if (found != calc_.end()) require(label, found->second);
  }
  void require(int32_t label, int32_t before) { text_ += formatString("l%d requires l%d\n", label, before); }
  // A rank has a NIC, and a port inside its node.
  int32_t nicTo(int32_t peer) const {
    return network_.folding().nodeOf(peer) == network_.folding().nodeOf(schedule_.position) ? 1 : 0;
  }
  // GOAL has no messages without bytes.
  static size_t atLeastOne(size_t bytes) { return bytes > 0 ? bytes : 1; }
  void receive(int32_t label, int32_t peer, int32_t tag, size_t bytes) {
    text_ += formatString("l%d: recv %zub from %d tag %d nic %d\n", ++labels_, atLeastOne(bytes), peer, tag,
                          nicTo(peer));
    require(label, labels_);
  }
  void send(int32_t label, int32_t peer, int32_t tag, size_t bytes) {
    text_ += formatString("l%d: send %zub to %d tag %d nic %d\n", ++labels_, atLeastOne(bytes), peer, tag,
                          nicTo(peer));
    require(labels_, label);
  }

  static constexpr int32_t kMaxScratch = 64;
  const Schedule& schedule_;
  const FoldedNetwork& network_;
  const MachinePipes& machine_;
  int32_t window_;
  Layout layout_;
  Slicing slicing_;
  int32_t slices_ = 1;
  int32_t labels_ = 0;
  std::map<SliceOf, int32_t> calc_;     // labels
  std::map<SliceOf, int32_t> scratch_;  // of queue, its n-th value
  std::string text_;
};

}  // namespace

Result<std::string> goalText(const Prediction& prediction) {
  const Question& question = prediction.question;
  if (prediction.folding.folds())
    return makeStatus(Code::kInvalidUsage, "GOAL text has all ranks: simulate them all (--all-ranks)");
  if (prediction.result.slices > kMaxGoalSlices)
    return makeStatus(Code::kInvalidArgument,
                      "%lld slices are more than GOAL text of %lld: take fewer ranks or larger slices",
                      static_cast<long long>(prediction.result.slices),
                      static_cast<long long>(kMaxGoalSlices));
  HORING_ASSIGN(const FoldedNetwork network, FoldedNetwork::build(*prediction.schedules, prediction.folding));
  const MachinePipes machine(question.machine, network);
  const size_t count = elementsOf(question.collective, question.machine.ranks(), question.bytes, 4);
  std::string text = formatString("num_ranks %d\n\n", question.machine.ranks());
  for (const Schedule& schedule : *prediction.schedules)
    text += RankWriter(schedule, network, machine, question.pipelining, count).write();
  return text;
}

}  // namespace horing
