#pragma once
// A rank's record of its calls, for its own messages and for answers to other ranks' inquiries.
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/flight_recorder.h"
#include "base/message_recorder.h"
#include "base/obstacle.h"
#include "control/call_report.h"
#include "control/rank_state.h"
#include "control/wait_times.h"

namespace horing {

// Stands for the current group of sends and receives, in place of a call's number.
inline constexpr uint64_t kExchange = UINT64_MAX;

class CallLog {
 public:
  // `first` is added to the recorder's numbers in reports to other ranks. `ranks`: of the communicator, if waits are measured. `messages`: how
  // many are kept, and which.
  explicit CallLog(uint64_t first = 0, int ranks = 0, size_t messages = MessageRecorder::kUsualEntries,
                   MessageRecorder::Keeps keeps = MessageRecorder::Keeps::kAll)
      : first_(first), messages_(messages, keeps), wait_times_(ranks) {}

  uint64_t first() const { return first_; }
  // Costs a few stores; see FlightRecorder.
  FlightRecorder& recorder() { return recorder_; }
  const FlightRecorder& recorder() const { return recorder_; }

  MessageRecorder& messages() { return messages_; }
  const MessageRecorder& messages() const { return messages_; }

  WaitTimes& waitTimes() { return wait_times_; }
  const WaitTimes& waitTimes() const { return wait_times_; }

  // A group of sends and receives begins; it ends.
  void beginExchange() { exchanges_.store(true, std::memory_order_release); }
  void endExchange() {
    goesOn();
    exchanges_.store(false, std::memory_order_release);
  }

  // The call in progress, as text: "all_reduce #3 (1000 x float32, sum)", "recv of 8 bytes from rank 1"; empty: none. Any thread.
  std::string nowText() const;

  // The call, or kExchange, begins to wait; it no longer waits. Any thread.
  void waits(uint64_t sequence, Obstacle obstacle);
  void goesOn();
  // The call in progress. Any thread.
  RankState state(int64_t now_ns) const;
  // A report on the call. Any thread.
  CallReport report(uint64_t sequence) const;
  // Sets the source of replay counts: how often each part of a plan has run. It may be called from any thread until it is replaced
  // by null.
  using Replays = std::function<std::vector<ReplayRuns>()>;
  void answerReplaysFrom(Replays replays);
  // The counts from that source. Any thread.
  std::vector<ReplayRuns> replays() const;

 private:
  void reportReplay(CallReport& report) const;

  const uint64_t first_;
  FlightRecorder recorder_;
  MessageRecorder messages_;
  WaitTimes wait_times_;
  mutable std::mutex mutex_;
  std::atomic<bool> exchanges_{false};  // release and acquire: orders the exchange's own report
  bool waits_ = false;                  // under mutex_, like the next two
  uint64_t waiting_sequence_ = 0;
  Obstacle obstacle_;
  mutable std::mutex replays_mutex_;
  Replays replays_;
};

// What must be the same on every rank, as a number that is never 0 and as text: "1000 x float32, sum, root 3".
uint64_t agreementDigest(const FlightRecord& record);
std::string argumentsText(const FlightRecord& record);

}  // namespace horing
