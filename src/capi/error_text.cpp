// horingGetErrorString, horingGetLastError and their texts.
#include "base/thread_object.h"
#include "capi/handle.h"

namespace horing {

namespace {
struct Texts {
  std::string last_failure;
  std::string shown;  // the text that horingGetLastError returned
};
using ThreadTexts = ThreadObject<Texts>;
thread_local bool out_of_memory = false;
}  // namespace

horingResult_t report(const Status& status, horingComm_t comm) noexcept {
  if (status.ok()) return horingSuccess;
  try {
    std::string& last_failure = ThreadTexts::get().last_failure;
    last_failure = status.toString();
    out_of_memory = false;
    if (comm && comm->alive) {
      std::lock_guard lock(comm->error_mutex);
      comm->last_error = last_failure;
    }
  } catch (...) {
    out_of_memory = true;
  }
  return static_cast<horingResult_t>(status.code());
}

horingResult_t reportOutOfMemory() noexcept {
  out_of_memory = true;
  return horingSystemError;
}

}  // namespace horing

extern "C" {

const char* horingGetErrorString(horingResult_t result) {
  return horing::codeName(static_cast<horing::Code>(result));
}

const char* horingGetLastError(horingComm_t comm) {
  using namespace horing;
  constexpr const char* kOutOfMemory = "no memory, not even for a message";
  try {
    if (!comm && out_of_memory) return kOutOfMemory;
    auto& [last_failure, shown] = ThreadTexts::get();
    shown.clear();
    HandleUse use(comm);
    if (!comm) {
      shown = last_failure;
    } else if (comm->alive) {
      std::lock_guard lock(comm->error_mutex);
      shown = comm->last_error;
    }
    return shown.c_str();
  } catch (...) {
    return kOutOfMemory;
  }
}

}  // extern "C"
