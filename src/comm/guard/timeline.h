#pragma once
// What a rank did when, for HORING_TRACE: its calls, the steps of their lanes, launches of kernels, and when it slept, as a file that Perfetto
// (ui.perfetto.dev) and chrome://tracing show.
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/status.h"

namespace horing {

class Driven;

// One thread at a time, but for launch(). Memory is fixed, 2 MiB: the latest kMaxSpans are kept.
class Timeline {
 public:
  static constexpr size_t kMaxSpans = 1 << 16;

  Timeline(const Clock& clock, int rank);

  // A call that has ended.
  void call(const FlightRecord& record);
  // A launch of kernels, or a call that went with others in one, that the host has seen to have ended: it is shown from when it was
  // called, or those before it had ended. Another thread, one at a time.
  void launch(const FlightRecord& record);
  // The rank slept from then until now.
  void slept(int64_t begun_ns);
  // To be called when an operation begins, whenever it has gone on, and when it has ended: sees which lanes have come to
  // another step since.
  void lanesBegin(const Driven& operation);
  void lanesWentOn(const Driven& operation);

  // As JSON, times in microseconds of the machine's clock, so that ranks of several machines are beside each other.
  std::string toJson() const;

 private:
  // Track 0 are calls, track 1 is sleep, from 2 on are lanes; the last one are kernels.
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
  int64_t to_wall_ns_;  // to be added to times of the clock
  std::mutex mutex_;
  std::vector<Span> spans_;  // under mutex_, as the next one
  size_t added_ = 0;
  int64_t launches_ended_ns_ = 0;  // of the latest
  std::vector<LanePlace> lanes_;
  size_t most_lanes_ = 0;
};

}  // namespace horing
