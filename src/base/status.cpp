#include "base/status.h"

#include <locale.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace horing {

namespace {

// Sets the C locale on this thread while it exists, so that numbers do not depend on the calling program's locale. Resource.
class PlainNumbers {
 public:
  PlainNumbers() : before_(::uselocale(plain())) {}
  ~PlainNumbers() { ::uselocale(before_); }
  PlainNumbers(const PlainNumbers&) = delete;
  PlainNumbers& operator=(const PlainNumbers&) = delete;

 private:
  // glibc has this locale built in: no memory is needed.
  static locale_t plain() {
    static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
    return kPlain;
  }
  locale_t before_;
};

}  // namespace

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
  static const auto* const empty = new std::string;  // never destroyed: calls may come during exit
  return message_ ? *message_ : *empty;
}

std::string Status::toString() const {
  return ok() ? std::string(codeName(code_)) : std::string(codeName(code_)) + ": " + message();
}

std::string formatStringV(const char* format, va_list arguments) {
  const PlainNumbers plain;
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
  const char* const limit = error_number == EMFILE  ? " (ulimit -n)"
                            : error_number == EFBIG ? " (ulimit -f)"
                                                    : "";
  return Status(Code::kSystemError, text + ": " + strerror_r(error_number, buffer, sizeof buffer) + limit);
}

}  // namespace horing
