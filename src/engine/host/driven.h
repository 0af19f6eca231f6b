#pragma once
// What a communicator drives to completion: one call of a plan, messages, links that come up.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/obstacle.h"
#include "base/peer_waits.h"
#include "base/status.h"

namespace horing {

// Chunks and messages of at least this size are sent from lent memory (transport/lent_memory.h) without a copy.
inline constexpr size_t kInPlaceBytes = 65536;

// How to wait for the next event; a later one is a shorter wait.
enum class Pause : uint8_t {
  kUntilRung,  // a peer rings
  kBriefly,    // nothing rings
  kForStream,  // nor when a stream of a device comes to an operation, soon or late
  kForCopies,  // of a device, of microseconds; nothing rings, and they have deadlines of their own
};

// The messages with tags, puts and signals of the communicator that poll() moves; the progress loop moves the others.
enum class Covers : uint8_t {
  kNone,
  kArrivals,     // what other ranks put and signal
  kAllMessages,  // also calls that other threads add
};

// For operations whose rounds are short.
inline constexpr uint32_t kRoundsPerLook = 1024;

// The lanes of an operation, for a timeline.
class LaneSteps {
 public:
  virtual ~LaneSteps() = default;
  virtual size_t laneCount() const = 0;
  // The current step of a lane; -1: the lane is finished.
  virtual int32_t laneStep(size_t lane) const = 0;
};

// Poll-driven and resumable: never blocks, allocates, locks or reads a clock between its begin() and done(), except inside a
// driver's copies (memory_copier.h). One thread at a time.
class Driven {
 public:
  virtual ~Driven() = default;
  // Makes all progress that is possible now. True if there was any.
  virtual bool poll() = 0;
  // True when all results are here and the peers need nothing more from this rank.
  virtual bool done() const = 0;
  // Set when a peer's message belongs to another operation; this one will then not complete.
  virtual const Status& status() const = 0;

  // The number of the call, the same on every rank. Nothing: messages, which other ranks need not count alike.
  virtual std::optional<uint64_t> sequence() const = 0;
  // For the error at the deadline: "collective #7".
  virtual std::string name() const = 0;
  // What the operation waits for, for reports.
  virtual Obstacle obstacle() const = 0;
  // The ranks that the operation waits for, for statistics: allocates nothing.
  virtual PeerWaits waits() const = 0;
  // Null: it has no lanes.
  virtual const LaneSteps* laneSteps() const = 0;
  virtual Pause pause() const = 0;
  virtual Covers covers() const = 0;
  // Whether a wait of this operation is reported to the rendezvous, which finds circular waits.
  virtual bool tellsOthers() const = 0;
  // It has waited long, or failed: records what it waits for, as far as it has not yet. All of that was enqueued at `since_ns` or before.
  virtual void recordWaiting([[maybe_unused]] int64_t since_ns) {}
  // How many rounds may pass, even with progress, before the loop reads the clock and checks for an abort.
  virtual uint32_t roundsPerLook() const = 0;
};

}  // namespace horing
