#include "comm/guard/metrics_file.h"

#include <unistd.h>

#include <ctime>
#include <utility>

#include "base/no_memory.h"
#include "base/output.h"

namespace horing {

namespace {
constexpr int kPauseMs = 1000;
}  // namespace

MetricsFile::MetricsFile(const std::string& folder, const MetricsOf& of, const CallLog& calls,
                         const CallLog& launches, const Clock& clock, const Log& log)
    : of_(of),
      path_(formatString("%s/horing-%s-rank%d-%lld.prom", folder.c_str(), of.communicator.c_str(), of.rank,
                         static_cast<long long>(of.pid))),
      calls_(calls),
      launches_(launches),
      clock_(clock),
      log_(log) {}

// In a forked child the file is the parent's.
MetricsFile::~MetricsFile() {
  const bool is_own = !thread_.isOfParent();
  thread_.end([this] {
    stop_ = true;
    watch_->wake();
  });
  if (is_own && is_there_) ::unlink(path_.c_str());
}

Status MetricsFile::start() {
  HORING_ASSIGN(watch_, Watch::open());
  return thread_.start("the file of metrics", [this] {
    while (!stop_) {
      [[maybe_unused]] const Status written = withoutExceptions([this] { write(); });
      [[maybe_unused]] const Status waited = withoutExceptions([this] { watch_->wait(kPauseMs); });
    }
  });
}

// A failure is told once: a full disk may have room again.
void MetricsFile::write() {
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  const int64_t wall_ms = int64_t{wall.tv_sec} * 1000 + wall.tv_nsec / 1'000'000;
  const Status status = replaceFile(path_, metricsText(of_, calls_, launches_, clock_.nowNs(), wall_ms));
  is_there_ = is_there_ || status.ok();
  if (!status.ok() && !std::exchange(has_failed_, true))
    log_.warn("metrics", "HORING_METRICS: %s", status.message().c_str());
}

}  // namespace horing
