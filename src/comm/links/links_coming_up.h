#pragma once
// Links to new peers, which are established while both ends are in the same call.
#include "comm/links/connector.h"
#include "engine/host/driven.h"

namespace horing {

// The links that the connector has started. All arguments must outlive it.
class LinksComingUp final : public Driven {
 public:
  // `sequence`: of the call that needs them.
  LinksComingUp(const Connector& connector, const LinkSet& links, std::optional<uint64_t> sequence)
      : connector_(connector), links_(links), sequence_(sequence) {}

  // The transports do the work.
  bool poll() override { return false; }
  bool done() const override { return connector_.established(links_); }
  const Status& status() const override { return status_; }
  std::optional<uint64_t> sequence() const override { return sequence_; }
  std::string name() const override { return "setting up links"; }
  Obstacle obstacle() const override {
    return {connector_.missing(links_), "connects to " + connector_.describeMissing(links_)};
  }
  // The statistics count waits for data only.
  PeerWaits waits() const override { return {}; }
  const LaneSteps* laneSteps() const override { return nullptr; }
  Pause pause() const override { return Pause::kBriefly; }
  Covers covers() const override { return Covers::kNone; }
  bool tellsOthers() const override { return true; }
  uint32_t roundsPerLook() const override { return kRoundsPerLook; }

 private:
  const Connector& connector_;
  const LinkSet& links_;
  const std::optional<uint64_t> sequence_;
  Status status_;
};

}  // namespace horing
