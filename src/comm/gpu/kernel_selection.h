#pragma once
// The algorithms that kernels run in place of the host's. The same on every rank.
#include <array>
#include <cstddef>
#include <optional>

#include "base/config.h"
#include "engine/host/operation.h"
#include "selection/selection.h"

namespace horing {

// A value.
class KernelSelection {
 public:
  // Respects an algorithm that the user names. `in_one_launch`: all ranks share one GPU. Errors: HORING_ALGO is invalid.
  static Result<KernelSelection> make(const Config& config, const GroupMap& map, bool in_one_launch);

  // The algorithm that accesses all ranks' buffers in one common launch; null: each rank has its own kernel.
  const Selection* inOneLaunch(Collective collective) const;
  // `window_bytes`: vectors of up to this size use a ring of one lane.
  const Selection& choose(const CallSpec& spec, size_t window_bytes, const Selection& of_hosts) const;

 private:
  std::array<std::optional<Selection>, kCollectives> in_one_launch_;
  Selection flat_;  // in place of shares that differ in size
  std::optional<Selection> serial_ring_;
};

}  // namespace horing
