#pragma once
// Builds, proves, connects and caches the plans of a communicator.
#include <memory>
#include <optional>
#include <vector>

#include "base/config.h"
#include "comm/links/connector.h"
#include "engine/host/operation.h"
#include "selection/selection.h"
#include "topology/cpu_caches.h"
#include "topology/group_map.h"

namespace horing {

// A plan with its operation and what it needs to be driven. One operation at a time.
struct PlannedOperation {
  Schedule schedule;
  std::vector<int32_t> by_speed;  // as in the selection's shape
  LinkSet links;                  // to its peers
  uint32_t transports = 0;        // bits, see Connector
  std::unique_ptr<Plan> plan;     // null until the peers are connected
  std::unique_ptr<HostOperation> operation;
};

// One thread at a time. Everything it takes must outlive it.
class Planner {
 public:
  // `cores`: the cores that all ranks of this machine may use together.
  Planner(const Config& config, const GroupMap& map, int rank, Connector& connector, int32_t cores);

  // The cached operation for this collective, algorithm and root (a rank; 0 if the collective has none). The first call, or one whose shape
  // follows other rates than the cached operation, builds and proves the schedule and begins the links to its peers; when the links are up,
  // bind() completes the operation. All selections in use at a time follow the same rates: an operation for others is destroyed.
  Result<PlannedOperation*> prepare(Collective collective, const Selection& selection, int root);
  // The cached operation if it is complete; else null.
  PlannedOperation* find(Collective collective, const Selection& selection, int root) const;
  void bind(PlannedOperation& planned);

  uint64_t memoryBytes() const;

 private:
  // Whether it was made for the rates that this shape follows.
  static bool follows(const PlannedOperation& planned, const Shape& shape) {
    return planned.schedule.shares == shape.shares && planned.by_speed == shape.by_speed;
  }
  PlanSettings settingsFor(const Schedule& schedule);
  size_t entryOf(Collective collective, const Selection& selection) const;
  Status prove(Collective collective, const Selection& selection, int32_t root_position) const;

  const Config& config_;
  const GroupMap& map_;
  int rank_;
  Connector& connector_;
  int32_t cores_;
  std::vector<int32_t> rank_of_position_;
  std::optional<CpuCaches> caches_;  // of the first thread that called bind(): detecting them takes 0.1 ms
  // By collective and place in the catalogue, then by root; null or missing: not prepared.
  std::vector<std::vector<std::unique_ptr<PlannedOperation>>> entries_;
};

}  // namespace horing
