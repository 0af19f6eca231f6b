#pragma once
// What a rank remembers of its calls, for itself and for others who ask.
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/flight_recorder.h"
#include "base/obstacle.h"
#include "control/call_report.h"
#include "control/rank_state.h"

namespace horing {

// In place of a call's number: the group of sends and receives that goes on.
inline constexpr uint64_t kExchange = UINT64_MAX;

class CallLog {
 public:
  // `first`: what is added to the recorder's numbers where others hear of calls.
  explicit CallLog(uint64_t first = 0) : first_(first) {}

  uint64_t first() const { return first_; }
  // Costs a few stores; see FlightRecorder.
  FlightRecorder& recorder() { return recorder_; }
  const FlightRecorder& recorder() const { return recorder_; }

  // A group of sends and receives begins, and is over.
  void beginExchange() { exchanges_.store(true, std::memory_order_release); }
  void endExchange() {
    goesOn();
    exchanges_.store(false, std::memory_order_release);
  }

  // The call, or kExchange, waits, and does not wait any more. Any thread.
  void waits(uint64_t sequence, Obstacle obstacle);
  void goesOn();
  // What goes on. Any thread.
  RankState state(int64_t now_ns) const;
  // What is known of the call. Any thread.
  CallReport report(uint64_t sequence) const;
  // Of every part of a plan that has run, how often. Asked by any thread, until it is null.
  using Replays = std::function<std::vector<ReplayRuns>()>;
  void answerReplaysFrom(Replays replays);
  // What that tells. Any thread.
  std::vector<ReplayRuns> replays() const;

 private:
  void reportReplay(CallReport& report) const;

  const uint64_t first_;
  FlightRecorder recorder_;
  mutable std::mutex mutex_;
  std::atomic<bool> exchanges_{false};  // release and acquire: with what the exchange said of itself
  bool waits_ = false;                  // under mutex_, as the next two
  uint64_t waiting_sequence_ = 0;
  Obstacle obstacle_;
  mutable std::mutex replays_mutex_;
  Replays replays_;
};

// What must be the same on every rank, as a number that is never 0 and as text: "1000 x float32, sum, root 3".
uint64_t agreementDigest(const FlightRecord& record);
std::string argumentsText(const FlightRecord& record);

}  // namespace horing
