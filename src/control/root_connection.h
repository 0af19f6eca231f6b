#pragma once
// Finds the rendezvous: tries its addresses in turn until one proves the job's key.
#include <atomic>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "control/control_channel.h"
#include "control/unique_id.h"

namespace horing {

// A deadline and, optionally, a flag that ends the wait earlier. A value; the objects it refers to must outlive it.
struct WaitLimit {
  Deadline deadline;
  const std::atomic<bool>* abort = nullptr;
  std::optional<Deadline> answered_by = {};  // when an unreachable machine is reported, if that is earlier

  bool aborted() const { return abort && abort->load(std::memory_order_relaxed); }
  bool over() const { return aborted() || deadline.passed(); }
};

// Sleeps until the channel's socket is ready, at most until the limit (or `at_most_ms`), then moves bytes.
Status waitAndProgress(ControlChannel& channel, const WaitLimit& limit, int at_most_ms);

// A channel whose other end has proved the key. kTimeout, with the last failure, at the deadline; kRemoteError when the other end
// keeps failing the proof (another key, or another version of the library) or, for a rendezvous that `was_open`, when all addresses
// refuse connections. kSystemError, at once: an error of this machine.
Result<std::unique_ptr<ControlChannel>> connectToRoot(const UniqueIdParts& parts, const Clock& clock,
                                                      const WaitLimit& limit, bool was_open = false,
                                                      const Log& log = Log(LogLevel::kNone));

// The outcome of an attempt, for the next one.
enum class Attempt : uint8_t {
  kFailed,
  kNobodyListens,
  kRefusedHere,  // by this machine, for example for want of a descriptor: trying again is useless
};
// The same for one address, without trying again. `how`, if given, receives the outcome.
Result<std::unique_ptr<ControlChannel>> connectOnce(const Endpoint& address, const Key& key,
                                                    const WaitLimit& limit, Attempt* how = nullptr);

}  // namespace horing
