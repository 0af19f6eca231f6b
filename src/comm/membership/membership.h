#pragma once
// A rank's membership in a communicator: its own identity, the other ranks, and the control plane between them.
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/links/connector.h"
#include "comm/links/transport_reach.h"
#include "comm/links/transports.h"
#include "comm/membership/communicator_options.h"
#include "comm/membership/placement.h"
#include "control/control.h"
#include "control/root_service.h"

namespace horing {

// Any thread, once the ranks have introduced themselves; constant unless a comment says otherwise.
class Membership {
 public:
  // Collective: returns when all ranks have arrived, or at the deadline (HORING_INIT_TIMEOUT_MS). Errors: as of Control::join().
  static Result<std::unique_ptr<Membership>> join(CommunicatorOptions options, const Clock& clock);

  // Makes transports of this rank. `purpose`: empty for the communicator's own transports; another purpose makes a separate set for another
  // thread. Both ends must use the same purpose.
  Result<std::vector<std::unique_ptr<Transport>>> makeTransports(const std::string& purpose = "") const;
  // Collective, once: the ranks exchange their identity and placement, agree on the transport between each two ranks, and form groups,
  // rings and rails. `table_digest`: of the table of algorithms. kInvalidUsage: ranks run with different settings.
  Status introduce(Connector& connector, uint64_t table_digest, Deadline deadline);

  // Connects the ranks `members`, ascending, which include this rank, by a rendezvous of their own, which the first member hosts. Collective
  // over the members, whatever state the other ranks and this communicator are in. There members[i] is rank i.
  struct Bootstrap {
    std::unique_ptr<RootService> root;  // on the host
    std::unique_ptr<Control> control;
  };
  Result<Bootstrap> bootstrap(std::span<const int> members) const;
  // An all-gather of small blobs (kMaxGatherBytes at most), also while a call runs; the result is indexed by rank. Collective; not
  // concurrent with itself or Communicator::allGather(). Errors of the control plane stick.
  Result<std::vector<std::vector<std::byte>>> exchangeFacts(std::span<const std::byte> mine,
                                                            int64_t timeout_ms) const;

  int rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }
  int position() const { return placement_->map().positionOfRank(options_.rank); }
  // The same on every rank, and unique to this communicator.
  const JobId& id() const { return id_; }
  const CommunicatorOptions& options() const { return options_; }
  const Config& config() const { return options_.config; }
  const Placement& placement() const { return *placement_; }
  const Log& log() const { return log_; }
  Control& control() const { return *control_; }
  // Whether every rank has opened memory of every other: ranks of one node, or of one process.
  bool sharesMemory() const { return shares_memory_; }
  // Set when this rank aborts the communicator.
  std::atomic<bool>& aborted() const { return *options_.aborted; }
  // Whether this process is a forked child, which must not act as this rank.
  bool isForkedChild() const { return fork_guard_.isForkedChild(); }

 private:
  Membership(CommunicatorOptions options, const Clock& clock);
  // The options with which this rank joins a rendezvous.
  JoinOptions joinOptions(const UniqueId& id, int rank, int ranks) const;
  Result<RootOptions> bootstrapOptions() const;
  std::optional<UniqueId> reserveBootstrapPort();
  Status agreeOnTransports(Connector& connector, Placement::Ranks ranks, Deadline deadline);
  bool allReach(const TransportReach& reach, const Connector& connector) const;

  CommunicatorOptions options_;
  Log log_;
  const Clock& clock_;
  ForkGuard fork_guard_;
  JobId id_{};
  Fragment place_;  // the place of this rank in its machine
  std::unique_ptr<Control> control_;
  std::optional<const Placement> placement_;  // set by introduce()
  std::optional<ReservedRoot>
      reserved_;  // the port at which this rank would host a bootstrap; nothing if it cannot
  std::vector<std::optional<UniqueId>> bootstrap_ids_;  // by rank
  bool shares_memory_ = false;
};

}  // namespace horing
