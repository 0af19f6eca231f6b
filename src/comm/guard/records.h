#pragma once
// The records of a communicator's calls and launches, and their files.
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "comm/guard/metrics_file.h"
#include "comm/guard/timeline.h"
#include "control/call_log.h"
#include "control/flight_file.h"

namespace horing {

// The logs and writeFlight(): any thread. The timeline: see timeline.h.
class Records {
 public:
  struct Files {
    FlightFileOptions flight;    // empty folder: no flight file (HORING_FLIGHT_DIR)
    std::string trace_folder;    // empty: no timeline (HORING_TRACE)
    std::string metrics_folder;  // empty: no metrics (HORING_METRICS)
  };
  // Warns if the timeline's file cannot be written; there is none then. Warns, too, if a flight file could not.
  Records(Files files, const Clock& clock, const Log& log);

  CallLog& calls() { return calls_; }
  // The log of kernel launches.
  CallLog& launches() { return launches_; }
  // Null: timelines are off.
  Timeline* timeline() { return timeline_.get(); }

  // Writes the latest calls when something fails; does nothing if the flight file is off.
  void writeFlight(const Status& error) const;
  // Writes the timeline, if there is one, when the communicator ends.
  void writeTimeline() const;
  // Keeps the file of metrics, if it is on, until the communicator ends.
  void startMetrics();

 private:
  const Files files_;
  const Clock& clock_;
  const Log log_;
  CallLog calls_;
  CallLog launches_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<MetricsFile> metrics_;
};

}  // namespace horing
