#include "control/control.h"

#include "base/check.h"
#include "control/joined_control.h"
#include "control/root_connection.h"

namespace horing {

Result<std::unique_ptr<Control>> Control::join(const JoinOptions& options) {
  HORING_CHECK(options.clock != nullptr);
  HORING_ASSIGN(const UniqueIdParts parts, decodeUniqueId(options.id));
  const Deadline deadline = Deadline::after(*options.clock, options.timeout_ms);
  Result<std::unique_ptr<ControlChannel>> channel =
      connectToRoot(parts, *options.clock, {deadline, options.abort}, options.root_was_open, options.log);
  if (!channel.ok())
    return makeStatus(channel.status().code(), "rank %d: %s", options.rank,
                      channel.status().message().c_str());
  auto control = std::make_unique<JoinedControl>(options, parts, channel.take());
  HORING_TRY(control->begin());
  if (Status arrived = control->arrive(deadline); !arrived.ok()) {
    if (options.failed_rank) *options.failed_rank = control->failedRank();
    return arrived;
  }
  options.log.trace("control", "rank %d of %d has joined", options.rank, options.ranks);
  return std::unique_ptr<Control>(std::move(control));
}

}  // namespace horing
