#pragma once
// What kernels run where hosts would run something else. The same on every rank.
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
  // Nothing is chosen where the user names another algorithm. `in_one_launch`: the ranks all share one GPU. Errors: HORING_ALGO makes
  // no sense.
  static Result<KernelSelection> make(const Config& config, const GroupMap& map, bool in_one_launch);

  // What reaches all ranks' buffers in one launch of all; null: each has a kernel of its own.
  const Selection* inOneLaunch(Collective collective) const;
  // `window_bytes`: vectors of so many bytes or fewer go by a ring of one lane.
  const Selection& choose(const CallSpec& spec, size_t window_bytes, const Selection& of_hosts) const;

 private:
  std::array<std::optional<Selection>, kCollectives> in_one_launch_;
  Selection flat_;  // where groups differ in size
  std::optional<Selection> serial_ring_;
};

}  // namespace horing
