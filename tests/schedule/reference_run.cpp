#include "reference_run.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <sstream>

namespace horing {

namespace {

struct Value {
  int32_t chunk = -1;
  std::string expression = "?";
};

struct Rank {
  std::vector<Value> in, out;
  std::vector<std::deque<Value>> scratch;
};

class Run {
 public:
  Run(std::span<const Schedule> schedules, InPlace in_place, uint32_t seed)
      : schedules_(schedules),
        contract_(contractOf(schedules[0])),
        in_place_(in_place),
        random_(seed),
        entered_(schedules.size()) {
    for (const Schedule& schedule : schedules_) {
      Rank& rank = ranks_.emplace_back();
      const int32_t chunks = schedule.grid.chunks();
      rank.in.resize(static_cast<size_t>(chunks));
      rank.out.resize(static_cast<size_t>(chunks));
      rank.scratch.resize(static_cast<size_t>(schedule.scratch_queues));
      for (int32_t chunk = 0; chunk < chunks; ++chunk)
        if (contract_.inputHas(schedule.position, chunk))
          at(schedule, Source::Kind::kIn, chunk) = {chunk, std::to_string(schedule.position)};
      for (size_t lane = 0; lane < schedule.lanes.size(); ++lane)
        lanes_.push_back({&schedule, lane, {schedule.lanes[lane], schedule.grid}});
    }
  }

  ReferenceResult run() {
    std::vector<size_t> order(lanes_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (bool moved = true; moved;) {
      moved = false;
      if (random_() % 8 == 0 || turns_ == 0) std::shuffle(order.begin(), order.end(), random_);
      ++turns_;
      for (size_t i : order)
        if (tryStep(lanes_[i])) {
          moved = true;
          break;
        }
    }
    ReferenceResult result;
    result.ended =
        std::all_of(lanes_.begin(), lanes_.end(), [](const LaneAt& lane) { return lane.cursor.done(); });
    for (const Schedule& schedule : schedules_) {
      std::vector<std::string>& out = result.out.emplace_back();
      for (int32_t chunk = 0; chunk < schedule.grid.chunks(); ++chunk)
        out.push_back(at(schedule, Source::Kind::kOut, chunk).expression);
    }
    return result;
  }

 private:
  struct LaneAt {
    const Schedule* schedule;
    size_t number;
    StepCursor cursor;
  };
  using Wire = std::tuple<int32_t, int32_t, size_t>;  // from, to, lane

  Value& at(const Schedule& schedule, Source::Kind kind, int32_t chunk) {
    Rank& rank = ranks_[static_cast<size_t>(schedule.position)];
    const bool same = contract_.aliases(in_place_, schedule.position, chunk);
    return (kind == Source::Kind::kIn && !same ? rank.in : rank.out)[static_cast<size_t>(chunk)];
  }

  // Whether the rank has returned to its caller, who may do with the input what he likes.
  bool ended(const Schedule& schedule) {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [&](const LaneAt& lane) { return lane.schedule != &schedule || lane.cursor.done(); });
  }

  bool ready(const LaneAt& lane) {
    if (lane.cursor.done()) return false;
    const Step& step = lane.cursor.step();
    if (step.wait.lane >= 0)
      for (const LaneAt& other : lanes_)
        if (other.schedule == lane.schedule && other.number == static_cast<size_t>(step.wait.lane) &&
            other.cursor.index() <= lane.cursor.waitStep())
          return false;
    for (const Source& source : step.sources) {
      if (takesMessage(source) && wires_[{source.index, lane.schedule->position, lane.number}].empty())
        return false;
      if (source.kind == Source::Kind::kScratch && scratch(lane, source.index).empty()) return false;
    }
    return true;
  }

  std::deque<Value>& scratch(const LaneAt& lane, int32_t queue) {
    return ranks_[static_cast<size_t>(lane.schedule->position)].scratch[static_cast<size_t>(queue)];
  }

  Value read(const LaneAt& lane, const Source& source, int32_t chunk) {
    if (source.kind == Source::Kind::kIn || source.kind == Source::Kind::kOut)
      return at(*lane.schedule, source.kind, chunk);
    if (source.kind == Source::Kind::kPeerIn) {
      const Schedule& owner = schedules_[static_cast<size_t>(source.index)];
      const bool is_there = entered_[static_cast<size_t>(source.index)] && !ended(owner);
      return is_there ? at(owner, Source::Kind::kIn, chunk) : Value();
    }
    auto& queue = takesMessage(source) ? wires_[{source.index, lane.schedule->position, lane.number}]
                                       : scratch(lane, source.index);
    const Value value = queue.front();
    queue.pop_front();
    return value;
  }

  bool tryStep(LaneAt& lane) {
    if (!ready(lane)) return false;
    const Step& step = lane.cursor.step();
    const int32_t chunk = lane.cursor.chunk();
    entered_[static_cast<size_t>(lane.schedule->position)] = true;
    Value value{chunk, ""};
    for (const Source& source : step.sources) {
      const Value operand = read(lane, source, chunk);
      value.expression +=
          (value.expression.empty() ? "" : " ") + (operand.chunk == chunk ? operand.expression : "?");
    }
    if (step.sources.size() > 1) value.expression = "(" + value.expression + ")";
    if (step.completes) value.expression = "[" + value.expression + "]";
    if (step.keep.kind == Keep::Kind::kOut) at(*lane.schedule, Source::Kind::kOut, chunk) = value;
    if (step.keep.kind == Keep::Kind::kEveryOut)
      for (const Schedule& owner : schedules_)
        if (entered_[static_cast<size_t>(owner.position)] && !ended(owner))
          at(owner, Source::Kind::kOut, chunk) = value;
    if (step.keep.kind == Keep::Kind::kScratch) scratch(lane, step.keep.index).push_back(value);
    if (step.send_to >= 0) wires_[{lane.schedule->position, step.send_to, lane.number}].push_back(value);
    for (const int32_t peer : step.signal_to)
      wires_[{lane.schedule->position, peer, lane.number}].push_back({chunk, ""});
    lane.cursor.next();
    return true;
  }

  std::span<const Schedule> schedules_;
  Contract contract_;
  InPlace in_place_;
  std::mt19937 random_;
  uint64_t turns_ = 0;
  std::vector<bool> entered_;  // [position]
  std::vector<Rank> ranks_;
  std::vector<LaneAt> lanes_;
  std::map<Wire, std::deque<Value>> wires_;
};

}  // namespace

ReferenceResult runReference(std::span<const Schedule> all_ranks, InPlace in_place, uint32_t seed) {
  return Run(all_ranks, in_place, seed).run();
}

bool fulfilsContract(std::span<const Schedule> all_ranks, const ReferenceResult& result) {
  if (!result.ended) return false;
  const Contract contract = contractOf(all_ranks[0]);
  const int32_t ranks = static_cast<int32_t>(all_ranks.size());
  for (const Schedule& schedule : all_ranks)
    for (int32_t chunk = 0; chunk < schedule.grid.chunks(); ++chunk) {
      if (!contract.outputHas(schedule.position, chunk)) continue;
      std::string flat = result.out[static_cast<size_t>(schedule.position)][static_cast<size_t>(chunk)];
      const auto completions = std::count(flat.begin(), flat.end(), '[');
      if (completions != (contract.folds() ? 1 : 0)) return false;
      for (char& c : flat)
        if (c == '(' || c == ')' || c == '[' || c == ']') c = ' ';
      std::istringstream words(flat);
      std::vector<std::string> found, expected;
      for (std::string word; words >> word;) found.push_back(word);
      for (int32_t rank = 0; rank < ranks; ++rank)
        if (contract.folds() || rank == contract.sourceOf(chunk)) expected.push_back(std::to_string(rank));
      std::sort(found.begin(), found.end());
      std::sort(expected.begin(), expected.end());
      if (found != expected) return false;
    }
  return true;
}

}  // namespace horing
