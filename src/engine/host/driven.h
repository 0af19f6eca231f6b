#pragma once
// What a communicator drives to its end: one call of a plan, or a group of sends and receives.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

// Chunks and messages of so many bytes and more are sent from memory that was lent to the transports (transport.h) without a copy.
inline constexpr size_t kInPlaceBytes = 65536;

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
  // What it waits for, for deadlines and reports.
  virtual std::string describeProgress() const = 0;
  // The ranks that it waits for, each once.
  virtual std::vector<int32_t> waitsFor() const = 0;
  // Whether it also waits for copies of a device: nobody rings when these are done, and they have deadlines of their own.
  virtual bool awaitsCopies() const { return false; }
};

}  // namespace horing
