#include "comm/calls/planner.h"

#include <algorithm>
#include <set>

#include "comm/calls/schedule_proof.h"
#include "comm/links/link_shape.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

// The links of a connector in the positions of a schedule.
class PositionedConnections final : public ConnectionSource {
 public:
  PositionedConnections(Connector& connector, const std::vector<int32_t>& rank_of_position)
      : connector_(connector), rank_of_position_(rank_of_position) {}
  Sender& sender(int32_t position, int channel) override {
    return connector_.link(LinkUse::kCollective, rankOf(position)).sender(channel);
  }
  Receiver& receiver(int32_t position, int channel) override {
    return connector_.link(LinkUse::kCollective, rankOf(position)).receiver(channel);
  }
  int32_t rankOf(int32_t position) const override { return rank_of_position_[static_cast<size_t>(position)]; }

 private:
  Connector& connector_;
  const std::vector<int32_t>& rank_of_position_;
};

}  // namespace

Planner::Planner(const Config& config, const GroupMap& map, int rank, Connector& connector, int32_t cores)
    : config_(config),
      map_(map),
      rank_(rank),
      connector_(connector),
      cores_(cores),
      entries_(kCollectives * algorithmCatalogue().size()) {
  for (int position = 0; position < map.ranks(); ++position)
    rank_of_position_.push_back(map.rankOfPosition(position));
}

PlanSettings Planner::settingsFor(const Schedule& schedule) {
  PlanSettings settings;
  settings.window = schedule.windowOf(static_cast<int32_t>(config_.window));
  settings.slot_bytes = linkShapeOf(config_, "", map_.ranks()).slot_bytes;
  const Simd best = detectSimd();
  settings.simd = config_.simd == "plain"  ? Simd::kPlain
                  : config_.simd == "avx2" ? std::min(best, Simd::kAvx2)
                                           : best;
  // An output larger than half of this rank's share of the last-level cache would be evicted before it is read.
  if (!caches_) caches_ = cachesOfThisThread();
  const CpuCaches& caches = *caches_;
  const auto ranksOn = [&](int32_t cpus) {
    const int32_t all = std::max(cores_, cpus);
    return (static_cast<uint64_t>(map_.largestGroup()) * static_cast<uint64_t>(cpus) +
            static_cast<uint64_t>(all) - 1) /
           static_cast<uint64_t>(all);
  };
  if (caches.last_level_bytes > 0)
    settings.stream_bytes = caches.last_level_bytes / (2 * ranksOn(caches.last_level_cpus));
  // The data of larger operations evicts slots from the core's own cache by itself, without roaming (transport/slots/README.md).
  if (caches.second_level_bytes > 0) settings.roam_bytes = caches.second_level_bytes / (2 * ranksOn(1));
  return settings;
}

size_t Planner::entryOf(Collective collective, const Selection& selection) const {
  return static_cast<size_t>(collective) * algorithmCatalogue().size() +
         static_cast<size_t>(selection.algorithm - algorithmCatalogue().data());
}

PlannedOperation* Planner::find(Collective collective, const Selection& selection, int root) const {
  const auto& by_root = entries_[entryOf(collective, selection)];
  const size_t at = hasRoot(collective) ? static_cast<size_t>(root) : 0;
  PlannedOperation* const entry = by_root.empty() ? nullptr : by_root[at].get();
  return entry && entry->operation && follows(*entry, selection.shape) ? entry : nullptr;
}

Result<PlannedOperation*> Planner::prepare(Collective collective, const Selection& selection, int root) {
  auto& by_root = entries_[entryOf(collective, selection)];
  if (by_root.empty()) by_root.resize(hasRoot(collective) ? static_cast<size_t>(map_.ranks()) : 1);
  std::unique_ptr<PlannedOperation>& entry = by_root[hasRoot(collective) ? static_cast<size_t>(root) : 0];
  if (entry && follows(*entry, selection.shape)) return entry.get();
  const int32_t root_position = hasRoot(collective) ? map_.positionOfRank(root) : 0;
  HORING_TRY(prove(collective, selection, root_position));
  auto made = std::make_unique<PlannedOperation>();
  HORING_ASSIGN(made->schedule, buildSchedule(selection.algorithm->name, collective, selection.shape,
                                              map_.positionOfRank(rank_), root_position));
  made->by_speed = selection.shape.by_speed;
  std::set<int> peers;
  for (const Lane& lane : made->schedule.lanes) {
    for (const int32_t position : sendPeers(lane)) peers.insert(map_.rankOfPosition(position));
    for (const int32_t position : recvPeers(lane)) peers.insert(map_.rankOfPosition(position));
  }
  made->links.peers.assign(peers.begin(), peers.end());
  HORING_TRY(connector_.begin(made->links));
  made->transports = connector_.transportsOf(made->links);
  entry = std::move(made);
  return entry.get();
}

Status Planner::prove(Collective collective, const Selection& selection, int32_t root_position) const {
  const int ranks = selection.shape.ranks();
  if (ranks > kMostRanksProven) return {};
  std::vector<Schedule> all;
  for (int32_t position = 0; position < ranks; ++position) {
    HORING_ASSIGN(Schedule schedule, buildSchedule(selection.algorithm->name, collective, selection.shape,
                                                   position, root_position));
    all.push_back(std::move(schedule));
  }
  PlanParameters parameters;
  const int32_t window = all.front().windowOf(static_cast<int32_t>(config_.window));
  parameters.slices = representativeSlices(kMaxSlices, window);
  parameters.window = {window};
  parameters.slots = static_cast<int32_t>(std::min(config_.slots, config_.socket_slots));
  parameters.scratch_slices = scratchSlicesNeeded(window);
  return proveSchedules(all, parameters);
}

void Planner::bind(PlannedOperation& planned) {
  PositionedConnections connections(connector_, rank_of_position_);
  planned.plan = std::make_unique<Plan>(planned.schedule, settingsFor(planned.schedule), connections);
  planned.operation = std::make_unique<HostOperation>(*planned.plan, rank_of_position_.data());
}

uint64_t Planner::memoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& by_root : entries_)
    for (const auto& entry : by_root)
      if (entry && entry->operation) bytes += entry->plan->memoryBytes() + entry->operation->memoryBytes();
  return bytes;
}

}  // namespace horing
