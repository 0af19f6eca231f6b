#pragma once
// The timeline of a rank for HORING_TRACE: calls, steps of lanes, kernel launches, sleep and messages, as a file for Perfetto (ui.perfetto.dev) and
// chrome://tracing.
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/message_recorder.h"
#include "base/status.h"

namespace horing {

class LaneSteps;

// One thread at a time, except launch(). Memory is fixed, 2 MiB: the latest kMaxSpans are kept.
class Timeline {
 public:
  static constexpr size_t kMaxSpans = 1 << 16;

  Timeline(const Clock& clock, int rank);

  // Adds a call that has ended.
  void call(const FlightRecord& record);
  // Adds a finished kernel launch, or one call of a launch: it is shown from its call, or from the end of the launches before it, whichever
  // is later. May be called by another thread, one at a time.
  void launch(const FlightRecord& record);
  // Adds a sleep from `begun_ns` until now.
  void slept(int64_t begun_ns);
  // Call these when an operation begins, and when it makes progress: they record which of its lanes have reached another step. Null: it
  // has none.
  void lanesBegin(const LaneSteps* operation);
  void lanesWentOn(const LaneSteps* operation);

  // As JSON, times in microseconds of the machine's wall clock, so that timelines of several machines line up.
  std::string toJson(const MessageRecorder& of_host, const MessageRecorder& of_kernels) const;

 private:
  // Track 0: calls; track 1: sleep; from 2 on: lanes; the last one: kernels.
  struct Span {
    int64_t begun_ns = 0;
    int64_t ended_ns = 0;
    uint64_t sequence = 0;  // of the call
    int32_t step = 0;       // of a lane
    uint16_t track = 0;
    uint16_t collective = 0;  // of a call or launch
  };
  static_assert(sizeof(Span) == 32);
  struct LanePlace {
    int32_t step = -1;  // -1: finished
    int64_t since_ns = 0;
  };

  void add(const Span& span);
  std::string spanJson(const Span& span) const;

  const Clock& clock_;
  int rank_;
  int64_t to_wall_ns_;  // offset from the clock to wall time
  std::mutex mutex_;
  std::vector<Span> spans_;  // under mutex_, like launches_ended_ns_
  size_t added_ = 0;
  int64_t launches_ended_ns_ = 0;  // the end of the latest launch
  std::vector<LanePlace> lanes_;
  size_t most_lanes_ = 0;
};

}  // namespace horing
