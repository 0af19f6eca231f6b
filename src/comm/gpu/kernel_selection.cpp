#include "comm/gpu/kernel_selection.h"

#include <string_view>
#include <utility>

#include "schedule/postcondition.h"
#include "selection/forced_algorithms.h"

namespace horing {

Result<KernelSelection> KernelSelection::make(const Config& config, const GroupMap& map, bool in_one_launch) {
  HORING_ASSIGN(const ForcedAlgorithms forced, ForcedAlgorithms::parse(config.algorithm));
  const auto selectionOfOwn = [&](Collective collective, const char* algorithm) -> std::optional<Selection> {
    for (const ForcedRow& row : forced.rows())
      if (row.collective.value_or(collective) == collective && row.algorithm->has(collective) &&
          row.algorithm->name != std::string_view(algorithm))
        return std::nullopt;
    return selectionOf(*findAlgorithm(algorithm), map);
  };
  KernelSelection chosen;
  chosen.flat_ = selectionOf(*findAlgorithm("ring"), map);
  if (!in_one_launch) {
    chosen.serial_ring_ = selectionOfOwn(Collective::kAllReduce, "serial_ring");
    return chosen;
  }
  // These read each input byte once, write each output byte once, and do not wait.
  for (const auto& [collective, algorithm] : {std::pair{Collective::kAllReduce, "peer_write"},
                                              {Collective::kAllGather, "peer_write"},
                                              {Collective::kReduceScatter, "peer_read"}})
    if (!config.reproducible || !contractOf(collective).folds())
      chosen.in_one_launch_[static_cast<size_t>(collective)] = selectionOfOwn(collective, algorithm);
  return chosen;
}

const Selection* KernelSelection::inOneLaunch(Collective collective) const {
  const std::optional<Selection>& chosen = in_one_launch_[static_cast<size_t>(collective)];
  return chosen ? &*chosen : nullptr;
}

const Selection& KernelSelection::choose(const CallSpec& spec, size_t window_bytes,
                                         const Selection& of_hosts) const {
  // Kernels run no schedules with shares of different sizes.
  const Selection& otherwise = of_hosts.shape.shares ? flat_ : of_hosts;
  static const Algorithm* const ring = findAlgorithm("ring");
  // `ring` overlaps its lanes from window to window.
  if (serial_ring_ && spec.collective == Collective::kAllReduce && otherwise.algorithm == ring &&
      spec.count <= window_bytes / dataTypeBytes(spec.type))
    return *serial_ring_;
  const Selection* const in_one_launch = inOneLaunch(spec.collective);
  // In premulsum each rank has its own factor.
  return in_one_launch && spec.op != RedOp::kPreMulSum ? *in_one_launch : otherwise;
}

}  // namespace horing
