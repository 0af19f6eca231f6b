#include "base/log.h"

#include <unistd.h>

#include <string>

#include "base/status.h"

namespace horing {

namespace {

std::string lineOf(LogLevel level, int rank, const char* subsystem, const std::string& text) {
  char host[64] = "?";
  ::gethostname(host, sizeof host - 1);
  std::string line = rank >= 0 ? formatString("horing %s:%d rank %d", host, ::getpid(), rank)
                               : formatString("horing %s:%d", host, ::getpid());
  line += formatString(" %s %s: ",
                       level == LogLevel::kWarn   ? "WARN"
                       : level == LogLevel::kInfo ? "INFO"
                                                  : "TRACE",
                       subsystem);
  return line + text + '\n';
}

}  // namespace

// A lost log line is not worth an error.
void Log::write(LogLevel level, const char* subsystem, const char* format, va_list arguments) const noexcept {
  try {
    const std::string line = lineOf(level, rank_, subsystem, formatStringV(format, arguments));
    // One write(2): lines of concurrent ranks do not mix.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory
  }
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
