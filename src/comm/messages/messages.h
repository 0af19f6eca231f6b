#pragma once
// Messages between pairs of ranks: groups of sends and receives, and messages beside operations.
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "comm/messages/message_parts.h"

namespace horing {

// Used by one thread at a time, which enters the guard, except functions marked "Any thread".
class Messages {
 public:
  explicit Messages(MessageParts parts) : parts_(std::move(parts)) {}

  // Runs all sends and receives of a group concurrently. Returns when all receives are complete and all sends are in flight.
  Status exchange(std::span<const Transfer> transfers);
  // The same over links that no message of the program takes, for measurements between calls.
  Status exchangeForMeasurement(std::span<const Transfer> transfers, int64_t timeout_ms) {
    return exchangeOver(parts_.measurement, transfers, timeout_ms);
  }
  // Any thread, once: sets the source of messages that progress beside operations.
  void setSource(MessageSource& source) { parts_.progress.setMessages(source); }
  // Before the source goes, when none of its messages is left: no thread asks it from here on, nor between calls.
  void dropSource();
  // Drives messages beside operations alone, until none is in flight or the source wants the thread back. After an error, which sticks, all
  // unfinished messages have failed. Returns nothing if another thread is in the communicator.
  std::optional<Status> driveBeside();
  // For a thread that waits for a GPU, outside of the communicator: if it is the one that drives messages beside operations, makes the progress
  // that is possible now. Errors stick, those of deadlines included.
  Status serveBeside();

 private:
  std::optional<Status> withMessagesBeside(Status (Progress::*drive)());
  Status exchangeOver(PairMessages& messages, std::span<const Transfer> transfers, int64_t timeout_ms);

  const MessageParts parts_;
};

}  // namespace horing
