#pragma once
// Finding the rendezvous: tries its addresses in turn, again and again, until one proves the job's key.
#include <atomic>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "control/control_channel.h"
#include "control/unique_id.h"

namespace horing {

// A deadline and, perhaps, a flag that ends the wait earlier. A value; what it refers to must outlive it.
struct Patience {
  Deadline deadline;
  const std::atomic<bool>* abort = nullptr;
  std::optional<Deadline> answered_by = {};  // of the other machine; if it is earlier

  bool aborted() const { return abort && abort->load(std::memory_order_relaxed); }
  bool over() const { return aborted() || deadline.passed(); }
};

// Sleeps until the channel's socket has something to do, at most until patience ends (or `at_most_ms`), and
// moves bytes.
Status waitAndProgress(ControlChannel& channel, const Patience& patience, int at_most_ms);

// A channel whose other end has proved the key. kTimeout with what happened last when the time passes;
// kRemoteError when whoever listens there keeps failing the proof: another key, or another version of the
// library, or, of a rendezvous that `was_open`, when nobody listens at any address any more. kSystemError at once: this machine's.
Result<std::unique_ptr<ControlChannel>> connectToRoot(const UniqueIdParts& parts, const Clock& clock,
                                                      const Patience& patience, bool was_open = false,
                                                      const Log& log = Log(LogLevel::kNone));

// What the end of an attempt says about the next one.
enum class Attempt : uint8_t {
  kFailed,
  kNobodyListens,
  kRefusedHere,  // by this machine, such as for want of a descriptor: no reason to try again
};
// The same, at one address and without trying again. `how`, if given, says how it failed.
Result<std::unique_ptr<ControlChannel>> connectOnce(const Endpoint& address, const Key& key,
                                                    const Patience& patience, Attempt* how = nullptr);

}  // namespace horing
