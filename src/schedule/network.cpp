#include "schedule/network.h"

#include <algorithm>
#include <set>

#include "schedule/postcondition.h"

namespace horing {

std::string stepName(const Schedule& schedule, int32_t lane, int32_t step) {
  return formatString("%s %s, position %d, lane %d, step %d", schedule.algorithm.c_str(),
                      collectiveName(schedule.collective), schedule.position, lane, step);
}

std::string describeBlockage(int32_t start, const std::function<Blockage(int32_t)>& blockage_of) {
  constexpr size_t kMaxLines = 12;
  std::vector<int32_t> seen;
  std::string text;
  for (int32_t lane = start; lane >= 0;) {
    if (std::find(seen.begin(), seen.end(), lane) != seen.end()) return text + "; which closes the circle";
    if (seen.size() == kMaxLines) return text + "; and so on";
    seen.push_back(lane);
    const Blockage blockage = blockage_of(lane);
    text += (text.empty() ? "" : "; ") + blockage.reason;
    lane = blockage.on;
  }
  return text;
}

namespace {

Status wrong(const Schedule& schedule, const char* format, ...) __attribute__((format(printf, 2, 3)));
Status wrong(const Schedule& schedule, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string what = formatStringV(format, arguments);
  va_end(arguments);
  return makeStatus(Code::kInvalidArgument, "schedule %s %s, position %d: %s", schedule.algorithm.c_str(),
                    collectiveName(schedule.collective), schedule.position, what.c_str());
}

Status checkRails(const Schedule& schedule) {
  const Rails& rails = schedule.rails;
  const Contract contract = contractOf(schedule);
  const bool has_blocks = contract.in == ChunkSet::kOwn || contract.out == ChunkSet::kOwn;
  if (hasRoot(schedule.collective) || schedule.collective == Collective::kAllToAll)
    return wrong(schedule, "groups of different sizes, which %s does not have",
                 collectiveName(schedule.collective));
  if (rails.ranks() != schedule.ranks)
    return wrong(schedule, "groups of %d ranks, all together; there are %d", rails.ranks(), schedule.ranks);
  if (schedule.grid.columns != rails.pieces() || (has_blocks && schedule.grid.rows != rails.groups()))
    return wrong(schedule, "a grid of %d x %d chunks; %d groups of such sizes have %d pieces each",
                 schedule.grid.rows, schedule.grid.columns, rails.groups(), rails.pieces());
  return {};
}

Status checkShares(const Schedule& schedule) {
  const std::span<const int32_t> parts = schedule.shares.parts();
  if (!isCutAtWill(schedule.collective))
    return wrong(schedule, "rows of different sizes, but %s has a block for each rank",
                 collectiveName(schedule.collective));
  if (parts.size() != static_cast<size_t>(schedule.grid.rows) || !Shares::areValid(parts))
    return wrong(schedule, "%zu rows of different sizes; the grid has %d, which together are %d",
                 parts.size(), schedule.grid.rows, Shares::kWhole);
  return {};
}

Status checkShape(const Schedule& schedule, const Schedule& first, int32_t position, int32_t ranks) {
  if (schedule.position != position)
    return wrong(schedule, "is at index %d of the list; schedules are listed by position", position);
  if (schedule.ranks != ranks)
    return wrong(schedule, "is for %d ranks, but %d schedules are given", schedule.ranks, ranks);
  if (static_cast<int>(schedule.collective) >= kCollectives)
    return wrong(schedule, "has an unknown collective");
  if (schedule.collective != first.collective || schedule.algorithm != first.algorithm ||
      schedule.grid != first.grid || schedule.root != first.root || schedule.rails != first.rails ||
      schedule.shares != first.shares)
    return wrong(schedule, "differs from position 0 in algorithm, collective, root, grid, groups or shares");
  if (schedule.root < 0 || schedule.root >= (hasRoot(schedule.collective) ? ranks : 1))
    return wrong(schedule, "has position %d as its root", schedule.root);
  const Grid& grid = schedule.grid;
  if (grid.rows < 1 || grid.columns < 1 || int64_t{grid.rows} * grid.columns > kMaxChunks)
    return wrong(schedule, "a grid of %d x %d chunks; 1 to %d are possible", grid.rows, grid.columns,
                 kMaxChunks);
  if (schedule.rails) HORING_TRY(checkRails(schedule));
  if (schedule.shares) HORING_TRY(checkShares(schedule));
  const int64_t due = schedule.rails ? 0 : chunksDue(schedule.collective, ranks);
  if (due != 0 && grid.chunks() != due)
    return wrong(schedule, "%d chunks for %d ranks; %s has one chunk per %s", grid.chunks(), ranks,
                 collectiveName(schedule.collective), due == ranks ? "rank" : "pair of ranks");
  if (schedule.collective == Collective::kAllToAll && grid.columns != ranks)
    return wrong(schedule, "%d columns for %d ranks; row s, column d is the block from s for d", grid.columns,
                 ranks);
  if (schedule.scratch_queues < 0 || schedule.scratch_queues > kMaxScratchQueues)
    return wrong(schedule, "%d scratch queues; at most %d are possible", schedule.scratch_queues,
                 kMaxScratchQueues);
  if (schedule.lanes.size() > kMaxLanes)
    return wrong(schedule, "%zu lanes; at most %d are possible", schedule.lanes.size(), kMaxLanes);
  for (size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    int64_t steps = 0;
    for (const Block& block : schedule.lanes[lane].blocks) {
      if (block.count < 0) return wrong(schedule, "lane %zu: a block repeats %d times", lane, block.count);
      if (block.body.size() > kMaxLaneSteps)
        return wrong(schedule, "lane %zu: more than %d steps", lane, kMaxLaneSteps);
      steps += static_cast<int64_t>(block.body.size()) * block.count;
      if (steps > kMaxLaneSteps) return wrong(schedule, "lane %zu: more than %d steps", lane, kMaxLaneSteps);
    }
  }
  return {};
}

// Checks one step of a body, for all iterations of its block at once.
class StepCheck {
 public:
  StepCheck(const Schedule& schedule, std::span<const int32_t> lane_steps, const Block& block)
      : schedule_(schedule), lane_steps_(lane_steps), block_(block) {}

  Status check(const Step& step, int32_t lane, int32_t index) {
    lane_ = lane;
    index_ = index;
    if (step.chunk < 0 || step.chunk >= schedule_.grid.chunks())
      return fault("chunk %d is outside the grid of %d", step.chunk, schedule_.grid.chunks());
    const size_t most = std::max(step.sources.size(), step.signal_to.size());
    if (most > kMaxSources)
      return fault("%zu sources or signals; at most %d are possible", most, kMaxSources);
    HORING_TRY(checkSources(step));
    if (schedule_.lanes[static_cast<size_t>(lane)].isSignals()) {
      HORING_TRY(checkSignals(step));
      return checkWait(step.wait);
    }
    const bool signals = std::any_of(step.sources.begin(), step.sources.end(), [](const Source& source) {
      return source.kind == Source::Kind::kSignal;
    });
    if (signals || !step.signal_to.empty()) return fault("signals in a lane that moves data");
    if (step.sources.empty()) return fault("has no source, so no value");
    if (step.keep.kind == Keep::Kind::kNone && step.send_to == -1)
      return fault("neither keeps nor sends its value");
    HORING_TRY(checkTargets(step));
    return checkWait(step.wait);
  }

 private:
  Status fault(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    const std::string what = formatStringV(format, arguments);
    va_end(arguments);
    return makeStatus(Code::kInvalidArgument, "schedule %s: %s", stepName(schedule_, lane_, index_).c_str(),
                      what.c_str());
  }

  Status checkPeer(const char* verb, int32_t peer) {
    if (peer < 0 || peer >= schedule_.ranks)
      return fault("%s position %d of %d", verb, peer, schedule_.ranks);
    if (peer == schedule_.position) return fault("%s its own position", verb);
    return {};
  }

  Status checkQueue(int32_t queue) {
    if (queue < 0 || queue >= schedule_.scratch_queues)
      return fault("names scratch queue %d of %d", queue, schedule_.scratch_queues);
    return {};
  }

  Status checkTargets(const Step& step) {
    if (step.send_to != -1) HORING_TRY(checkPeer("sends to", step.send_to));
    if (step.send_to != -1 && step.keep.kind == Keep::Kind::kEveryOut)
      return fault("sends a value that it keeps in all outputs");
    switch (step.keep.kind) {
      case Keep::Kind::kNone:
      case Keep::Kind::kOut:
      case Keep::Kind::kEveryOut:
        if (step.keep.index != 0)
          return fault("gives an index, %d, to a keep that has none", step.keep.index);
        return {};
      case Keep::Kind::kScratch:
        return checkQueue(step.keep.index);
    }
    return fault("keeps its value in an unknown space");
  }

  // Checks a step in a signal lane.
  Status checkSignals(const Step& step) {
    if (!step.isSignal() || step.keep != Keep{} || step.send_to != -1 || step.completes || step.chunk != 0)
      return fault("moves data in a lane of signals");
    for (const Source& source : step.sources)
      if (source.kind != Source::Kind::kSignal) return fault("reads data in a lane of signals");
    for (const int32_t peer : step.signal_to) HORING_TRY(checkPeer("signals to", peer));
    return std::set(step.signal_to.begin(), step.signal_to.end()).size() == step.signal_to.size()
               ? Status()
               : fault("signals twice to one position");
  }

  Status checkSources(const Step& step) {
    seen_.clear();
    for (const Source& source : step.sources) {
      switch (source.kind) {
        case Source::Kind::kRecv:
          HORING_TRY(checkPeer("receives from", source.index));
          break;
        case Source::Kind::kPeerIn:
          HORING_TRY(checkPeer("reads the input of", source.index));
          break;
        case Source::Kind::kSignal:
          HORING_TRY(checkPeer("awaits a signal from", source.index));
          break;
        case Source::Kind::kScratch:
          HORING_TRY(checkQueue(source.index));
          break;
        case Source::Kind::kIn:
        case Source::Kind::kOut:
          if (source.index != 0) return fault("gives an index, %d, to a source that has none", source.index);
          break;
        default:
          return fault("reads an unknown space");
      }
      seen_.push_back(source);
    }
    if (seen_.size() < 2) return {};
    std::sort(seen_.begin(), seen_.end());
    const auto twice = std::adjacent_find(seen_.begin(), seen_.end());
    if (twice == seen_.end()) return {};
    if (twice->kind == Source::Kind::kRecv) return fault("receives twice from position %d", twice->index);
    return fault("reads the same place twice");
  }

  Status checkWait(const Wait& wait) {
    if (wait.lane == -1)
      return wait.step == 0 && wait.stride == 0 ? Status() : fault("waits for a step of no lane");
    if (wait.lane < 0 || wait.lane >= static_cast<int32_t>(lane_steps_.size()))
      return fault("waits for lane %d of %zu", wait.lane, lane_steps_.size());
    const int32_t steps = lane_steps_[static_cast<size_t>(wait.lane)];
    const int64_t last = wait.step + int64_t{wait.stride} * (block_.count - 1);
    if (wait.step < 0 || wait.step >= steps || last < 0 || last >= steps)
      return fault("waits for steps %d to %lld of lane %d, which has %d", wait.step,
                   static_cast<long long>(last), wait.lane, steps);
    return {};
  }

  const Schedule& schedule_;
  std::span<const int32_t> lane_steps_;
  const Block& block_;
  int32_t lane_ = 0;
  int32_t index_ = 0;
  std::vector<Source> seen_;
};

Status checkSteps(const Schedule& schedule) {
  std::vector<int32_t> lane_steps;
  for (const Lane& lane : schedule.lanes) lane_steps.push_back(lane.stepCount());
  for (size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    int32_t first = 0;
    for (const Block& block : schedule.lanes[lane].blocks) {
      StepCheck check(schedule, lane_steps, block);
      if (block.count == 0) continue;
      for (size_t body = 0; body < block.body.size(); ++body)
        HORING_TRY(
            check.check(block.body[body], static_cast<int32_t>(lane), first + static_cast<int32_t>(body)));
      first += static_cast<int32_t>(block.body.size()) * block.count;
    }
  }
  return {};
}

// Sorts as (lane, to, from), so that a receiver's connections are adjacent.
struct Key {
  int32_t lane, to, from;
  auto operator<=>(const Key&) const = default;
};

// Calls visit(lane, step) for every step of every body that is executed at least once.
template <typename Visit>
void forEachBodyStep(const Schedule& schedule, const Visit& visit) {
  for (size_t lane = 0; lane < schedule.lanes.size(); ++lane)
    for (const Block& block : schedule.lanes[lane].blocks)
      for (const Step& step : block.body)
        if (block.count > 0) visit(static_cast<int32_t>(lane), step);
}

}  // namespace

Status Network::addScratch(const Schedule& schedule, int32_t position) {
  Status status;
  const auto claim = [&](int32_t& end, int32_t lane, int32_t queue, const char* verb) {
    const int32_t id = laneId(position, lane);
    if (end != -1 && end != id && status.ok())
      status = wrong(schedule, "lanes %d and %d both %s scratch queue %d; one at each end keeps its order",
                     laneOf(end), lane, verb, queue);
    end = id;
  };
  forEachBodyStep(schedule, [&](int32_t lane, const Step& step) {
    if (step.keep.kind == Keep::Kind::kScratch)
      claim(scratch_[static_cast<size_t>(scratchId(position, step.keep.index))].producer, lane,
            step.keep.index, "fill");
    for (const Source& source : step.sources)
      if (source.kind == Source::Kind::kScratch)
        claim(scratch_[static_cast<size_t>(scratchId(position, source.index))].consumer, lane, source.index,
              "empty");
  });
  return status;
}

Status Network::addRank(const Schedule& schedule, int32_t position) {
  first_lane_.push_back(lanes());
  for (const Lane& lane : schedule.lanes) {
    lane_position_.push_back(position);
    first_block_.push_back(first_port_.size());
    for (const Block& block : lane.blocks) {
      first_port_.push_back(ports_.size());
      ports_.resize(ports_.size() + block.body.size());
    }
  }
  first_scratch_.push_back(static_cast<int32_t>(scratch_.size()));
  scratch_.resize(scratch_.size() + static_cast<size_t>(schedule.scratch_queues));
  return addScratch(schedule, position);
}

void Network::connect() {
  std::vector<Key> keys;
  for (const Schedule& schedule : schedules_)
    forEachBodyStep(schedule, [&](int32_t lane, const Step& step) {
      if (step.send_to >= 0) keys.push_back({lane, step.send_to, schedule.position});
      for (const int32_t peer : step.signal_to) keys.push_back({lane, peer, schedule.position});
      for (const Source& source : step.sources)
        if (takesMessage(source)) keys.push_back({lane, schedule.position, source.index});
    });
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const Key& key : keys) connections_.push_back({key.from, key.to, key.lane});
  const auto find = [&](const Key& key) {
    return static_cast<int32_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin());
  };
  const auto addSend = [&](StepPorts& ports, const Key& key) {
    send_connections_.push_back(find(key));
    connections_[static_cast<size_t>(send_connections_.back())].sends = true;
    ++ports.sends;
  };
  size_t port = 0;
  for (const Schedule& schedule : schedules_)
    for (size_t lane = 0; lane < schedule.lanes.size(); ++lane)
      for (const Block& block : schedule.lanes[lane].blocks)
        for (const Step& step : block.body) {
          StepPorts& ports = ports_[port++];
          if (block.count == 0) continue;
          ports.first_recv = static_cast<int32_t>(recv_connections_.size());
          ports.first_send = static_cast<int32_t>(send_connections_.size());
          const auto number = static_cast<int32_t>(lane);
          if (step.send_to >= 0) addSend(ports, {number, step.send_to, schedule.position});
          for (const int32_t peer : step.signal_to) addSend(ports, {number, peer, schedule.position});
          for (const Source& source : step.sources) {
            if (!takesMessage(source)) continue;
            recv_connections_.push_back(find({number, schedule.position, source.index}));
            connections_[static_cast<size_t>(recv_connections_.back())].receives = true;
          }
        }
}

Result<Network> Network::build(std::span<const Schedule> all_ranks) {
  if (all_ranks.empty() || all_ranks.size() > kMaxVerifiedRanks)
    return makeStatus(Code::kInvalidArgument, "%zu schedules to verify; 1 to %d are possible",
                      all_ranks.size(), kMaxVerifiedRanks);
  Network network;
  network.schedules_ = all_ranks;
  const int32_t ranks = static_cast<int32_t>(all_ranks.size());
  for (int32_t position = 0; position < ranks; ++position) {
    const Schedule& schedule = all_ranks[static_cast<size_t>(position)];
    HORING_TRY(checkShape(schedule, all_ranks[0], position, ranks));
    HORING_TRY(checkSteps(schedule));
    HORING_TRY(network.addRank(schedule, position));
  }
  int64_t steps = 0;
  for (int32_t id = 0; id < network.lanes(); ++id) steps += network.lane(id).stepCount();
  if (steps > kMaxTotalSteps)
    return makeStatus(Code::kInvalidArgument, "schedules of %lld steps in all; at most %lld can be verified",
                      static_cast<long long>(steps), static_cast<long long>(kMaxTotalSteps));
  network.connect();
  return network;
}

}  // namespace horing
