#pragma once
// Log lines "horing host:pid rank subsystem: text" on stderr, or elsewhere, or in NCCL's form. Passed in, never global.
#include <unistd.h>

#include <cstdarg>
#include <string>

#include "base/status.h"

namespace horing {

enum class LogLevel : int { kNone = 0, kWarn = 1, kInfo = 2, kTrace = 3 };

// The destination and the form of log lines.
struct LogTarget {
  int descriptor = STDERR_FILENO;
  bool nccl_form =
      false;  // "host:pid:tid [GPU] NCCL INFO text", which tools parse; the GPU in place of a rank
};
// The descriptor of a log file, which a process opens once and never closes. %h is replaced by the host name, %p by the process ID.
// "stdout", "stderr" and "" (stderr) name the standard streams.
Result<int> openLogFile(const std::string& path);

// A value. Lines are written atomically, so ranks and threads may share stderr. A line is dropped if memory has run out.
class Log {
 public:
  explicit Log(LogLevel level = LogLevel::kWarn, int rank = -1, LogTarget target = {})
      : level_(level), rank_(rank), target_(target) {}

  bool enabled(LogLevel level) const { return level <= level_; }
  LogLevel level() const { return level_; }
  int descriptor() const { return target_.descriptor; }

  void warn(const char* subsystem, const char* format, ...) const __attribute__((format(printf, 3, 4)));
  void info(const char* subsystem, const char* format, ...) const __attribute__((format(printf, 3, 4)));
  void trace(const char* subsystem, const char* format, ...) const __attribute__((format(printf, 3, 4)));

 private:
  void write(LogLevel level, const char* subsystem, const char* format, va_list arguments) const noexcept;
  LogLevel level_;
  int rank_;
  LogTarget target_;
};

}  // namespace horing
