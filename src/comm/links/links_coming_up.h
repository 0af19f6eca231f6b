#pragma once
// Links to new peers, which are established while both ends are in the same call.
#include "comm/links/connector.h"
#include "engine/host/driven.h"

namespace horing {

// The links that the connector has started. All arguments must outlive it.
class LinksComingUp final : public Driven {
 public:
  LinksComingUp(int rank, const Connector& connector, const LinkSet& links)
      : rank_(rank), connector_(connector), links_(links) {}

  // The transports do the work.
  bool poll() override { return false; }
  bool done() const override { return connector_.established(links_); }
  const Status& status() const override { return status_; }
  Obstacle obstacle() const override {
    return {connector_.missing(links_), "connects to " + connector_.describeMissing(links_)};
  }
  // The statistics count waits for data only.
  PeerWaits waits() const override { return {}; }
  Pause pause() const override { return Pause::kBriefly; }
  Covers covers() const override { return Covers::kNone; }
  Status overdue(int64_t timeout_ms) const override {
    return makeStatus(
        Code::kTimeout,
        "rank %d could not connect to %s within %lld ms (HORING_TIMEOUT_MS): has every rank "
        "called the same collective? is a firewall between them, or HORING_SOCKET_IFNAME wrong?",
        rank_, connector_.describeMissing(links_).c_str(), static_cast<long long>(timeout_ms));
  }
  bool tellsOthers() const override { return true; }
  uint32_t roundsPerLook() const override { return kRoundsPerLook; }
  size_t laneCount() const override { return 0; }
  int32_t laneStep(size_t) const override { return -1; }

 private:
  int rank_;
  const Connector& connector_;
  const LinkSet& links_;
  Status status_;
};

}  // namespace horing
