#pragma once
// The parts of a communicator that messages and windows use.
#include <atomic>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "comm/guard/guard.h"
#include "comm/links/connector.h"
#include "comm/messages/pair_messages.h"
#include "comm/progress/progress.h"
#include "comm/reach/reach.h"

namespace horing {

// All must outlive their user.
struct MessageParts {
  Guard& guard;
  Connector& connector;
  Reach& reach;
  Progress& progress;
  PairMessages& untagged;
  PairMessages& beside;  // messages with tags, puts and signals
  PairMessages& measurement;
  const Clock& clock;
  const std::atomic<int64_t>& timeout_ms;  // of an operation
  std::function<void()> links_made;        // called inside, when there are new links
};

}  // namespace horing
