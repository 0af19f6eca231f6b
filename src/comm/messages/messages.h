#pragma once
// Messages between pairs of ranks: groups of sends and receives, and messages with tags.
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "comm/guard/guard.h"
#include "comm/links/connector.h"
#include "comm/messages/pair_messages.h"
#include "comm/progress/progress.h"
#include "comm/reach/reach.h"

namespace horing {

// Used by one thread at a time, which enters the guard, except functions marked "Any thread".
class Messages {
 public:
  // All must outlive it.
  struct Parts {
    Guard& guard;
    Connector& connector;
    Reach& reach;
    Progress& progress;
    PairMessages& untagged;
    PairMessages& beside;  // those with tags, puts and signals
    PairMessages& apart;   // measurements
    const Clock& clock;
    const std::atomic<int64_t>& timeout_ms;  // of an operation
    std::function<void()> links_made;        // called inside, when there are new links
  };
  explicit Messages(Parts parts) : parts_(std::move(parts)) {}

  // Runs all sends and receives of a group concurrently. Returns when all receives are complete and all sends are in flight.
  Status exchange(std::span<const Transfer> transfers);
  // The same over links that no message of the program takes, for measurements between calls.
  Status exchangeApart(std::span<const Transfer> transfers, int64_t timeout_ms) {
    return exchangeOver(parts_.apart, transfers, timeout_ms);
  }
  // Any thread, once: sets the source of messages with tags, which progress beside other operations. `source` must outlive the operations.
  void setSource(MessageSource& source) { parts_.progress.setMessages(source); }
  // Drives messages with tags alone, until none is in flight or the source wants the thread back. After an error, which sticks, all
  // unfinished messages have failed. Returns nothing if another thread is in the communicator.
  std::optional<Status> driveTagged();

 private:
  Status exchangeOver(PairMessages& messages, std::span<const Transfer> transfers, int64_t timeout_ms);

  const Parts parts_;
};

}  // namespace horing
