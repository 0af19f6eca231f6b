#pragma once
// Log lines "horing host:pid rank subsystem: text" on stderr. Passed in, never global.
#include <cstdarg>

namespace horing {

enum class LogLevel : int { kNone = 0, kWarn = 1, kInfo = 2, kTrace = 3 };

// A value. Lines are written whole, so ranks and threads may share stderr. One for which there is no
// memory is lost.
class Log {
 public:
  explicit Log(LogLevel level = LogLevel::kWarn, int rank = -1) : level_(level), rank_(rank) {}

  bool enabled(LogLevel level) const { return level <= level_; }
  LogLevel level() const { return level_; }

  void warn(const char* subsystem, const char* format, ...) const __attribute__((format(printf, 3, 4)));
  void info(const char* subsystem, const char* format, ...) const __attribute__((format(printf, 3, 4)));
  void trace(const char* subsystem, const char* format, ...) const __attribute__((format(printf, 3, 4)));

 private:
  void write(LogLevel level, const char* subsystem, const char* format, va_list arguments) const noexcept;
  LogLevel level_;
  int rank_;
};

}  // namespace horing
