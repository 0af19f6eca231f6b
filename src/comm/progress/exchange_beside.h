#pragma once
// The messages beside operations of a communicator that are under way: new calls join, and each ends by itself.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/links/connector.h"
#include "comm/progress/message_source.h"
#include "comm/reach/lent_buffers.h"
#include "engine/host/driven.h"
#include "engine/host/point_to_point.h"

namespace horing {

// All arguments must outlive it. It is driven alone, or polled beside another operation.
class ExchangeBeside final : public Driven {
 public:
  struct Parts {
    PointToPoint& messages;
    Connector& connector;
    LentBuffers& lent;
    const Clock& clock;
    int rank;
    int ranks;
    const std::atomic<int64_t>& timeout_ms;  // of each call that begins from now on
    MessageRecorder& recorder;
  };
  ExchangeBeside(const Parts& parts, MessageSource& source) : parts_(parts), source_(source) {}

  // Admits what the source has.
  bool poll() override;
  // Also when the source wants the thread back: the messages then continue later, or beside other operations.
  bool done() const override { return status().ok() && (parts_.messages.done() || source_.wantsThread()); }
  const Status& status() const override { return status_.ok() ? parts_.messages.status() : status_; }
  std::optional<uint64_t> sequence() const override { return std::nullopt; }
  std::string name() const override { return "a message with a tag, a put or a wait"; }
  Obstacle obstacle() const override { return parts_.messages.obstacle(); }
  PeerWaits waits() const override { return parts_.messages.waits(); }
  const LaneSteps* laneSteps() const override { return nullptr; }
  // Also while it waits for a call's turn, which no event announces.
  Pause pause() const override {
    return std::max(source_.pause(),
                    parts_.connector.established(links_) ? Pause::kUntilRung : Pause::kBriefly);
  }
  Covers covers() const override { return Covers::kAllMessages; }
  // The program may have other messages to begin before it waits for these: ranks that wait for each other are no circle.
  bool tellsOthers() const override { return false; }
  uint32_t roundsPerLook() const override { return kRoundsPerLook; }

  // Bits of the transports that it uses; more are added while it is driven.
  uint32_t transports() const { return transports_; }
  // The earliest of the calls that are under way.
  Deadline deadline() const;

 private:
  bool admit();
  Status begin(const MessageSource::Call& call);
  Status connect(std::span<const Transfer> transfers);

  Parts parts_;
  MessageSource& source_;
  Status status_;
  uint32_t transports_ = 0;
  LinkSet links_{LinkUse::kBeside, {}};      // to ranks that are named, which have to come up
  LinkSet all_links_{LinkUse::kBeside, {}};  // also to ranks that a message may come from
  std::map<uint64_t, Deadline> deadlines_;   // by ticket
};

}  // namespace horing
