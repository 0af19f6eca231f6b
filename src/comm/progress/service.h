#pragma once
// What a rank does for others between its calls, when it is asked why they wait: it moves the transports for a few rounds, and takes puts
// as long as they arrive.
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "comm/progress/background.h"
#include "engine/host/driven.h"

namespace horing {

class ServiceForOthers final : public Driven {
 public:
  ServiceForOthers(Background& background, const Clock& clock)
      : background_(background), clock_(clock), end_ns_(clock.nowNs() + kLongestNs) {}
  bool tookPuts() const { return took_puts_; }

  bool poll() override {
    const bool took = background_.poll(Covers::kNone);
    took_puts_ = took_puts_ || took;
    polls_left_ = took && clock_.nowNs() < end_ns_ ? kPolls : polls_left_ - 1;
    return took;
  }
  bool done() const override { return polls_left_ <= 0; }
  const Status& status() const override { return status_; }
  std::optional<uint64_t> sequence() const override { return std::nullopt; }
  std::string name() const override { return "service for other ranks"; }
  Obstacle obstacle() const override { return {}; }
  PeerWaits waits() const override { return {}; }
  Pause pause() const override { return Pause::kBriefly; }
  Covers covers() const override { return Covers::kAllMessages; }
  bool tellsOthers() const override { return false; }
  uint32_t roundsPerLook() const override { return 1; }

 private:
  static constexpr int kPolls = 17;  // without puts
  // A call that begins meanwhile waits for the service.
  static constexpr int64_t kLongestNs = 1'000'000;

  Background& background_;
  const Clock& clock_;
  const int64_t end_ns_;
  int polls_left_ = kPolls;
  bool took_puts_ = false;
  Status status_;
};

}  // namespace horing
