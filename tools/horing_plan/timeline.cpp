#include "timeline.h"

#include <algorithm>
#include <deque>

namespace horing {

namespace {

class TimelineRun {
 public:
  explicit TimelineRun(const Network& network)
      : network_(network),
        wires_(network.connections().size()),
        scratch_(network.scratchQueues().size()),
        free_at_(static_cast<size_t>(network.lanes())) {}

  Result<Timeline> run() {
    for (int32_t lane = 0; lane < network_.lanes(); ++lane) {
      first_.push_back(timeline_.events.size());
      cursors_.push_back(network_.cursor(lane));
      timeline_.events.resize(timeline_.events.size() + static_cast<size_t>(network_.lane(lane).stepCount()));
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (int32_t lane = 0; lane < network_.lanes(); ++lane)
        while (!cursor(lane).done() && tryStep(lane)) moved = true;
    }
    for (int32_t lane = 0; lane < network_.lanes(); ++lane)
      if (!cursor(lane).done())
        return makeStatus(Code::kInvalidArgument, "%s never starts; 'horing-plan verify' says why",
                          stepName(network_.schedule(network_.positionOf(lane)), network_.laneOf(lane),
                                   cursor(lane).index())
                              .c_str());
    return std::move(timeline_);
  }

 private:
  StepCursor& cursor(int32_t lane) { return cursors_[static_cast<size_t>(lane)]; }

  // Whether all inputs are there; `inputs_` then names them.
  bool ready(int32_t lane) {
    const Step& step = cursor(lane).step();
    const int32_t position = network_.positionOf(lane);
    inputs_.clear();
    if (step.wait.lane >= 0) {
      const int32_t target = network_.laneId(position, step.wait.lane);
      if (cursor(target).index() <= cursor(lane).waitStep()) return false;
      inputs_.push_back({Dependence::Kind::kWait,
                         first_[static_cast<size_t>(target)] + static_cast<size_t>(cursor(lane).waitStep()),
                         0});
    }
    int32_t recv = network_.ports(lane, cursor(lane)).first_recv;
    for (const Source& source : step.sources) {
      const bool message = takesMessage(source);
      if (!message && source.kind != Source::Kind::kScratch) continue;
      auto& queue = message ? wires_[static_cast<size_t>(network_.recvConnection(recv++))]
                            : scratch_[static_cast<size_t>(network_.scratchId(position, source.index))];
      if (queue.empty()) return false;
      inputs_.push_back(
          {message ? Dependence::Kind::kMessage : Dependence::Kind::kScratch, queue.front(), 0});
    }
    return true;
  }

  bool tryStep(int32_t lane) {
    if (!ready(lane)) return false;
    const Step& step = cursor(lane).step();
    const int32_t position = network_.positionOf(lane);
    const size_t me = first_[static_cast<size_t>(lane)] + static_cast<size_t>(cursor(lane).index());
    int32_t start = free_at_[static_cast<size_t>(lane)];
    for (Dependence& input : inputs_) {
      input.to = me;
      start = std::max(start, timeline_.events[input.from].start + 1);
      timeline_.dependences.push_back(input);
    }
    const StepPorts& ports = network_.ports(lane, cursor(lane));
    int32_t recv = ports.first_recv;
    for (const Source& source : step.sources) {
      if (takesMessage(source)) wires_[static_cast<size_t>(network_.recvConnection(recv++))].pop_front();
      if (source.kind == Source::Kind::kScratch)
        scratch_[static_cast<size_t>(network_.scratchId(position, source.index))].pop_front();
    }
    if (step.keep.kind == Keep::Kind::kScratch)
      scratch_[static_cast<size_t>(network_.scratchId(position, step.keep.index))].push_back(me);
    for (const int32_t id : network_.sendConnections(ports)) wires_[static_cast<size_t>(id)].push_back(me);
    timeline_.events[me] = {
        position, network_.laneOf(lane), cursor(lane).index(), cursor(lane).chunk(), start, &step};
    timeline_.length = std::max(timeline_.length, start + 1);
    free_at_[static_cast<size_t>(lane)] = start + 1;
    cursor(lane).next();
    return true;
  }

  const Network& network_;
  Timeline timeline_;
  std::vector<size_t> first_;  // event of each lane's step 0
  std::vector<StepCursor> cursors_;
  std::vector<std::deque<size_t>> wires_, scratch_;  // events that sent the messages in flight
  std::vector<int32_t> free_at_;
  std::vector<Dependence> inputs_;
};

}  // namespace

Result<Timeline> computeTimeline(std::span<const Schedule> all_ranks) {
  HORING_ASSIGN(const Network network, Network::build(all_ranks));
  int64_t steps = 0;
  for (int32_t lane = 0; lane < network.lanes(); ++lane) steps += network.lane(lane).stepCount();
  if (steps > kMaxTimelineSteps)
    return makeStatus(Code::kInvalidArgument, "%lld steps are too many to lay out; at most %lld can be",
                      static_cast<long long>(steps), static_cast<long long>(kMaxTimelineSteps));
  return TimelineRun(network).run();
}

}  // namespace horing
