#pragma once
// The result of calls that can fail: Status, and Result<T> for calls that return a value.
//
// Expected failures (bad input, a dead peer, a full disk) travel as values; bugs stop the program through
// HORING_CHECK (base/check.h). A message says what was tried, on which rank and peer, what happened and what
// to do.
#include <cstdarg>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace horing {

// Values are those of horingResult_t in the C API, which has the reader-facing description of each.
enum class Code : int {
  kOk = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,
};

const char* codeName(Code code);

// A value: cheap to copy; the success path holds no memory.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  // Empty when ok().
  const std::string& message() const;
  // "remote error: rank 3 ..."; for logs.
  std::string toString() const;

 private:
  Code code_ = Code::kOk;
  std::shared_ptr<const std::string> message_;
};

// Builds a Status with a printf-style message.
Status makeStatus(Code code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// As makeStatus(kSystemError), with ": <strerror(error_number)>" appended, and the process's resource limit if the error is about one.
Status systemError(int error_number, const char* format, ...) __attribute__((format(printf, 2, 3)));
// printf into a std::string, the same under every locale.
std::string formatString(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string formatStringV(const char* format, va_list arguments);

// A T, or the Status that explains its absence.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T take() { return std::move(*value_); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace horing

#define HORING_CONCAT_INNER(a, b) a##b
#define HORING_CONCAT(a, b) HORING_CONCAT_INNER(a, b)

// Returns the Status of `expression` from the enclosing function unless it is ok.
#define HORING_TRY(expression)                             \
  do {                                                     \
    ::horing::Status horing_try_status = (expression);     \
    if (!horing_try_status.ok()) return horing_try_status; \
  } while (false)

// HORING_ASSIGN(auto x, call()): binds the value of a Result, or returns its Status from the enclosing
// function.
#define HORING_ASSIGN(target, expression) \
  HORING_ASSIGN_NAMED(HORING_CONCAT(horing_result_, __LINE__), target, expression)
#define HORING_ASSIGN_NAMED(name, target, expression) \
  auto name = (expression);                           \
  if (!name.ok()) return name.status();               \
  target = name.take()
