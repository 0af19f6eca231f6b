#include "comm/guard/records.h"

#include <unistd.h>

#include <utility>

#include "base/output.h"

namespace horing {

Records::Records(Files files, const Clock& clock, const Log& log)
    : files_(std::move(files)), clock_(clock), log_(log), calls_(0, files_.flight.ranks) {
  if (!files_.trace_folder.empty()) timeline_ = std::make_unique<Timeline>(clock, files_.flight.rank);
}

void Records::writeFlight(const Status& error) const {
  if (files_.flight.folder.empty()) return;
  const Result<std::string> path = writeFlightFile(files_.flight, calls_, launches_, clock_, error);
  if (path.ok()) {
    log_.warn("flight",
              "the last operations of rank %d are in %s; horing-info trace reads the files of all ranks",
              files_.flight.rank, path.value().c_str());
  } else {
    log_.warn("flight", "HORING_FLIGHT_DIR: %s", path.status().message().c_str());
  }
}

void Records::writeTimeline() const {
  if (!timeline_) return;
  const std::string path =
      formatString("%s/horing-%s-rank%d-%d.trace.json", files_.trace_folder.c_str(),
                   files_.flight.job.c_str(), files_.flight.rank, static_cast<int>(::getpid()));
  const Status written = writeWholeFile(path, timeline_->toJson());
  if (written.ok()) {
    log_.info("trace", "the timeline of rank %d is in %s", files_.flight.rank, path.c_str());
  } else {
    log_.warn("trace", "HORING_TRACE: %s", written.message().c_str());
  }
}

void Records::startMetrics() {
  if (files_.metrics_folder.empty()) return;
  const FlightFileOptions& of = files_.flight;
  metrics_ =
      std::make_unique<MetricsFile>(files_.metrics_folder, MetricsOf{of.job, of.rank, ::getpid(), of.ranks},
                                    calls_, launches_, clock_, log_);
  const Status started = metrics_->start();
  if (!started.ok()) log_.warn("metrics", "HORING_METRICS: %s", started.message().c_str());
}

}  // namespace horing
