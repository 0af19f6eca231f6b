#include "base/log.h"

#include <unistd.h>

#include <string>

#include "base/status.h"

namespace horing {

void Log::write(LogLevel level, const char* subsystem, const char* format, va_list arguments) const {
  char host[64] = "?";
  ::gethostname(host, sizeof host - 1);
  std::string line = rank_ >= 0 ? formatString("horing %s:%d rank %d", host, ::getpid(), rank_)
                                : formatString("horing %s:%d", host, ::getpid());
  line += formatString(" %s %s: ",
                       level == LogLevel::kWarn   ? "WARN"
                       : level == LogLevel::kInfo ? "INFO"
                                                  : "TRACE",
                       subsystem);
  line += formatStringV(format, arguments);
  line += '\n';
  // One write(2): lines of concurrent ranks do not mix. A lost log line is not worth an error.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

#define HORING_LOG_BODY(level)                \
  if (!enabled(level)) return;                \
  va_list arguments;                          \
  va_start(arguments, format);                \
  write(level, subsystem, format, arguments); \
  va_end(arguments)

void Log::warn(const char* subsystem, const char* format, ...) const {
  HORING_LOG_BODY(LogLevel::kWarn);
}
void Log::info(const char* subsystem, const char* format, ...) const {
  HORING_LOG_BODY(LogLevel::kInfo);
}
void Log::trace(const char* subsystem, const char* format, ...) const {
  HORING_LOG_BODY(LogLevel::kTrace);
}

}  // namespace horing
