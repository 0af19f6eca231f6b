#pragma once
// Log lines "horing host:pid rank subsystem: text" on stderr, or elsewhere, or in NCCL's form. Passed in, never global.
#include <unistd.h>

#include <cstdarg>
#include <string>

#include "base/status.h"

namespace horing {

enum class LogLevel : int { kNone = 0, kWarn = 1, kInfo = 2, kTrace = 3 };

// Where lines go, and what they look like.
struct LogTarget {
  int descriptor = STDERR_FILENO;
  bool nccl_form = false;  // "host:pid:tid [rank] NCCL INFO text", which tools know
};
// Of a file, which is opened once in a process and never closed: with %h for the host's name and %p for the process's number.
// "stdout" and "stderr", or "", are those.
Result<int> openLogFile(const std::string& path);

// A value. Lines are written whole, so ranks and threads may share stderr. One for which there is no
// memory is lost.
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
