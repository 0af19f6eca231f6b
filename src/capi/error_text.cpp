// horingGetErrorString, horingGetLastError and what they show.
#include <map>
#include <mutex>

#include "capi/handle.h"

namespace horing {

namespace {

// The C API promises the text of the last error to any thread at any time, and a result code has no room for
// it.
struct ErrorTexts {
  std::mutex mutex;
  std::map<horingComm_t, std::string> of_communicator;
};
ErrorTexts& errorTexts() {
  static auto* texts = new ErrorTexts;  // never destroyed: calls may come while the program ends
  return *texts;
}
thread_local std::string last_failure;  // of this thread
thread_local std::string shown;         // what horingGetLastError gave out

}  // namespace

horingResult_t report(const Status& status, horingComm_t comm) {
  if (status.ok()) return horingSuccess;
  last_failure = status.toString();
  if (comm) {
    ErrorTexts& texts = errorTexts();
    std::lock_guard lock(texts.mutex);
    texts.of_communicator[comm] = last_failure;
  }
  return static_cast<horingResult_t>(status.code());
}

Status checkHandle(horingComm_t comm) {
  if (!comm)
    return makeStatus(Code::kInvalidArgument,
                      "comm is NULL: expected a communicator from a horingCommInit function");
  if (comm->alive != horingComm::kAlive)
    return makeStatus(Code::kInvalidArgument,
                      "comm is not a live communicator: it was destroyed, or never was one");
  if (comm->communicator->isForkedChild())
    return makeStatus(Code::kInvalidUsage,
                      "this communicator belongs to the process that made it, and this is a forked child: "
                      "make a new one here");
  return {};
}

void forgetErrors(horingComm_t comm) {
  ErrorTexts& texts = errorTexts();
  std::lock_guard lock(texts.mutex);
  texts.of_communicator.erase(comm);
}

}  // namespace horing

extern "C" {

const char* horingGetErrorString(horingResult_t result) {
  return horing::codeName(static_cast<horing::Code>(result));
}

const char* horingGetLastError(horingComm_t comm) {
  using namespace horing;
  try {
    shown.clear();
    if (!comm) {
      shown = last_failure;
    } else {
      ErrorTexts& texts = errorTexts();
      std::lock_guard lock(texts.mutex);
      if (const auto found = texts.of_communicator.find(comm); found != texts.of_communicator.end())
        shown = found->second;
    }
    return shown.c_str();
  } catch (...) {
    return "out of memory";
  }
}

}  // extern "C"
