#include "base/status.h"

#include <cstdio>
#include <cstring>

namespace horing {

const char* codeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "no error";
    case Code::kUnhandledCudaError:
      return "unhandled CUDA error";
    case Code::kSystemError:
      return "system error";
    case Code::kInternalError:
      return "internal error";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kInvalidUsage:
      return "invalid usage";
    case Code::kRemoteError:
      return "remote error";
    case Code::kInProgress:
      return "in progress";
    case Code::kTimeout:
      return "timeout";
  }
  return "unknown result code";
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return message_ ? *message_ : kEmpty;
}

std::string Status::toString() const {
  return ok() ? std::string(codeName(code_)) : std::string(codeName(code_)) + ": " + message();
}

std::string formatStringV(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string formatString(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatStringV(format, arguments);
  va_end(arguments);
  return text;
}

Status makeStatus(Code code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status status(code, formatStringV(format, arguments));
  va_end(arguments);
  return status;
}

Status systemError(int error_number, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatStringV(format, arguments);
  va_end(arguments);
  char buffer[128];
  return Status(Code::kSystemError, text + ": " + strerror_r(error_number, buffer, sizeof buffer));
}

}  // namespace horing
