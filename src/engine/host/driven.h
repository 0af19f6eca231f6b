#pragma once
// What a communicator drives to its end: one call of a plan, messages, links that come up.
#include <cstddef>
#include <cstdint>

#include "base/obstacle.h"
#include "base/status.h"

namespace horing {

// Chunks and messages of so many bytes and more are sent from memory that was lent to the transports (transport.h) without a copy.
inline constexpr size_t kInPlaceBytes = 65536;

// How to wait for what comes next.
enum class Pause : uint8_t {
  kUntilRung,  // a peer rings
  kBriefly,    // nobody rings
  kForCopies,  // of a device, which take microseconds: nobody rings, and they have deadlines of their own
};

// Poll-driven and resumable: never blocks, allocates, locks or looks at a clock between its begin() and done(), but for what a driver
// does that is asked for copies (memory_copier.h). One thread at a time.
class Driven {
 public:
  virtual ~Driven() = default;
  // Does what can be done now. True if anything was.
  virtual bool poll() = 0;
  // True when all results are here and the peers need nothing more from this rank.
  virtual bool done() const = 0;
  // Set when a peer's message belongs to something else than what is done here, which will not end then.
  virtual const Status& status() const = 0;

  // What it waits for, for reports.
  virtual Obstacle obstacle() const = 0;
  virtual Pause pause() const { return Pause::kUntilRung; }
  // kTimeout, in words for the user: it was not done within the time.
  virtual Status overdue(int64_t timeout_ms) const = 0;
  // Whether the rendezvous is to hear that it waits, and may find that ranks wait for each other.
  virtual bool tellsOthers() const { return true; }
  // How many rounds may go by, however well it goes on, before somebody looks at the clock, and whether it was aborted.
  virtual uint32_t roundsPerLook() const { return 1024; }
  // For a timeline: how many lanes it has, and the step that one of them is at (-1: it has finished).
  virtual size_t laneCount() const { return 0; }
  virtual int32_t laneStep(size_t) const { return -1; }
};

}  // namespace horing
