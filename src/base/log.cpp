#include "base/log.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/output.h"

namespace horing {

namespace {

std::string hostName() {
  char host[64] = "?";
  ::gethostname(host, sizeof host - 1);
  return host;
}

const char* levelName(LogLevel level) {
  return level == LogLevel::kWarn ? "WARN" : level == LogLevel::kInfo ? "INFO" : "TRACE";
}

// The prefix of a line.
std::string beginningOf(LogLevel level, int rank, const char* subsystem) {
  const std::string host = hostName();
  std::string line = rank >= 0 ? formatString("horing %s:%d rank %d", host.c_str(), ::getpid(), rank)
                               : formatString("horing %s:%d", host.c_str(), ::getpid());
  return line + formatString(" %s %s: ", levelName(level), subsystem);
}
std::string beginningInNcclForm(LogLevel level, int gpu) {
  return formatString("%s:%d:%ld [%d] NCCL %s ", hostName().c_str(), ::getpid(),
                      static_cast<long>(::syscall(SYS_gettid)), std::max(gpu, 0), levelName(level));
}

// Tools take a log in NCCL's form line by line.
std::string everyLineBegun(const std::string& beginning, std::string_view text) {
  std::string lines;
  do {
    const size_t end = std::min(text.find('\n'), text.size());
    lines += beginning;
    lines += text.substr(0, end);
    lines += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
  return lines;
}

std::string withNames(const std::string& path) {
  std::string named;
  for (size_t i = 0; i < path.size(); ++i) {
    const char next = path[i] == '%' && i + 1 < path.size() ? path[i + 1] : '\0';
    if (next == 'h' || next == 'p') {
      named += next == 'h' ? hostName() : std::to_string(::getpid());
      ++i;
    } else {
      named += path[i];
    }
  }
  return named;
}

}  // namespace

Result<int> openLogFile(const std::string& path) {
  if (path.empty() || path == "stderr") return STDERR_FILENO;
  if (path == "stdout") return STDOUT_FILENO;
  struct Open {
    std::mutex mutex;
    std::map<std::string, int> files;  // under mutex
  };
  static auto* const open = new Open;  // never destroyed: threads may write during exit
  std::lock_guard lock(open->mutex);
  const std::string named = withNames(path);
  const auto [file, is_new] = open->files.try_emplace(named, -1);
  if (is_new) file->second = openOutput(named, O_APPEND, 0644).release();
  if (file->second >= 0) return file->second;
  const int error = errno;
  open->files.erase(file);
  return makeStatus(Code::kSystemError, "HORING_DEBUG_FILE: cannot write %s: %s", named.c_str(),
                    std::strerror(error));
}

// A lost log line is not worth an error.
void Log::write(LogLevel level, const char* subsystem, const char* format, va_list arguments) const noexcept {
  try {
    const std::string text = formatStringV(format, arguments);
    const std::string line = target_.nccl_form ? everyLineBegun(beginningInNcclForm(level, rank_), text)
                                               : beginningOf(level, rank_, subsystem) + text + '\n';
    const NoWriteSignals quiet;
    // One write(2): lines of concurrent ranks do not mix.
    [[maybe_unused]] const ssize_t written = ::write(target_.descriptor, line.data(), line.size());
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
