#include "comm/guard/records.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/output.h"

namespace horing {

namespace {

std::string timelinePath(const Records::Files& files) {
  return formatString("%s/horing-%s-rank%d-%d.trace.json", files.trace_folder.c_str(),
                      files.flight.job.c_str(), files.flight.rank, static_cast<int>(::getpid()));
}

// Once in a process, whose communicators have one environment: at the end of the job it would be too late to do something about it.
Records::Files withWritableTimeline(Records::Files files, const Log& log) {
  if (files.trace_folder.empty()) return files;
  const Status writable = checkCreatable(timelinePath(files));
  if (writable.ok()) return files;
  files.trace_folder.clear();
  static std::atomic<bool> is_said{false};
  if (!is_said.exchange(true))
    log.warn("trace",
             "HORING_TRACE: %s. This process goes on without timelines; make the folder on this machine, "
             "with the right to write, or name another",
             writable.message().c_str());
  return files;
}

// Once in a process, as above. Its folder may still be made in time, so the record is written all the same.
void sayIfNoFlightFileCanBeWritten(const FlightFileOptions& flight, const Log& log) {
  if (flight.folder.empty()) return;
  const Status writable = checkCreatable(flightPath(flight));
  static std::atomic<bool> is_said{false};
  if (writable.ok() || is_said.exchange(true)) return;
  log.warn("flight",
           "HORING_FLIGHT_DIR: %s. As it is, a failure will leave no record of this process; make the folder "
           "on this machine, with the right to write, or name another",
           writable.message().c_str());
}

size_t keptMessages(const Records::Files& files) {
  return files.trace_folder.empty() ? MessageRecorder::kUsualEntries : MessageRecorder::kEntriesOfTimeline;
}

MessageRecorder::Keeps whichMessages(const Records::Files& files) {
  const bool is_read = !files.trace_folder.empty() || !files.flight.folder.empty();
  return is_read ? MessageRecorder::Keeps::kAll : MessageRecorder::Keeps::kWaiting;
}

}  // namespace

Records::Records(Files files, const Clock& clock, const Log& log)
    : files_(withWritableTimeline(std::move(files), log)),
      clock_(clock),
      log_(log),
      calls_(0, files_.flight.ranks, keptMessages(files_), whichMessages(files_)),
      launches_(kFirstLaunch, 0, keptMessages(files_), whichMessages(files_)) {
  sayIfNoFlightFileCanBeWritten(files_.flight, log_);
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
  const std::string path = timelinePath(files_);
  const Status written = writeWholeFile(path, timeline_->toJson(calls_.messages(), launches_.messages()));
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
