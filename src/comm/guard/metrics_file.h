#pragma once
// A rank's file of metrics (HORING_METRICS), for Prometheus.
#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/service_thread.h"
#include "base/watch.h"
#include "control/call_log.h"
#include "control/metrics.h"

namespace horing {

// A separate thread replaces the file every second, so that a disk that stalls does not stop heartbeats. A concurrent reader sees the old
// file or the new one. The logs and the clock must outlive this object.
class MetricsFile {
 public:
  MetricsFile(const std::string& folder, const MetricsOf& of, const CallLog& calls, const CallLog& launches,
              const Clock& clock, const Log& log);
  // Removes the file. Waits for a disk that stalls.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  Status start();

 private:
  void write();

  const MetricsOf of_;
  const std::string path_;
  const CallLog &calls_, &launches_;
  const Clock& clock_;
  const Log log_;
  bool is_there_ = false, has_failed_ = false;  // used by the thread; by others once it has ended
  std::unique_ptr<Watch> watch_;                // of the thread
  std::atomic<bool> stop_{false};
  ServiceThread thread_;
};

}  // namespace horing
