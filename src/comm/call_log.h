#pragma once
// What a rank remembers of its calls, for itself and for others who ask.
#include <mutex>
#include <string>
#include <vector>

#include "base/flight_recorder.h"
#include "comm/call_report.h"

namespace horing {

// What a call waits for.
struct Obstacle {
  std::vector<int32_t> ranks;
  std::string text;
};

class CallLog {
 public:
  // Costs a few stores; see FlightRecorder.
  FlightRecorder& recorder() { return recorder_; }
  const FlightRecorder& recorder() const { return recorder_; }

  // The call waits. Any thread.
  void waits(uint64_t sequence, Obstacle obstacle);
  // What is known of the call. Any thread.
  CallReport report(uint64_t sequence) const;

 private:
  FlightRecorder recorder_;
  mutable std::mutex mutex_;
  uint64_t waiting_sequence_ = 0;  // under mutex_
  Obstacle obstacle_;              // under mutex_
};

// What must be the same on every rank, as a number that is never 0 and as text: "1000 x float32, sum, root 3".
uint64_t agreementDigest(const FlightRecord& record);
std::string argumentsText(const FlightRecord& record);

}  // namespace horing
