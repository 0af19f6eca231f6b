#pragma once
// What a communicator remembers of what it did, and the files of that.
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "comm/guard/timeline.h"
#include "control/call_log.h"
#include "control/flight_file.h"

namespace horing {

// The logs and writeFlight(): any thread. The timeline: see there.
class Records {
 public:
  struct Files {
    FlightFileOptions flight;  // its folder is empty: no such file (HORING_FLIGHT_DIR)
    std::string trace_folder;  // empty: no timeline (HORING_TRACE)
  };
  Records(Files files, const Clock& clock, const Log& log);

  CallLog& calls() { return calls_; }
  // Of the kernels of whoever launches some.
  CallLog& launches() { return launches_; }
  // Null: nobody wants one.
  Timeline* timeline() { return timeline_.get(); }

  // When something fails: the last calls. Nothing if nobody wants that.
  void writeFlight(const Status& error) const;
  // In the end: the timeline, if there is one.
  void writeTimeline() const;

 private:
  const Files files_;
  const Clock& clock_;
  const Log log_;
  CallLog calls_;
  CallLog launches_{kFirstLaunch};
  std::unique_ptr<Timeline> timeline_;
};

}  // namespace horing
