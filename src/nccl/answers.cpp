// Codes, texts and the version.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/thread_object.h"
#include "nccl/environment.h"
#include "nccl/face.h"

namespace horing::nccl {

namespace {

constexpr int kLevelWithTimeout = NCCL_VERSION(2, 30, 0);

struct Texts {
  std::string latest_here;  // the latest failure of this thread
  std::string shown;        // the text that ncclGetLastError returned
};
using ThreadTexts = ThreadObject<Texts>;

// The latest failure of all threads, for watchdog threads that query the failure of another thread.
struct Latest {
  std::mutex mutex;
  std::string text;  // under mutex
};
Latest& latest() {
  static auto* const kept = new Latest;  // never destroyed: calls may come during exit
  return *kept;
}

void keep(const char* given) noexcept {
  try {
    const std::string text = given + originsOf(given);
    ThreadTexts::get().latest_here = text;
    Latest& all = latest();
    std::lock_guard lock(all.mutex);
    all.text = text;
  } catch (...) {  // no memory: only the code is returned
  }
}

// Parses "2.30.7", "2.30" or 23007; 0: invalid.
int parseLevel(const char* text) {
  int major = 0, minor = 0, patch = 0;
  char more = 0;
  if (std::sscanf(text, "%d.%d.%d%c", &major, &minor, &patch, &more) == 3 ||
      std::sscanf(text, "%d.%d%c", &major, &minor, &more) == 2)
    return NCCL_VERSION(major, minor, patch);
  return std::sscanf(text, "%d%c", &major, &more) == 1 && major > 0 ? major : 0;
}

}  // namespace

int level() {
  const char* const wanted = std::getenv("HORING_NCCL_LEVEL");
  const int parsed = wanted ? parseLevel(wanted) : 0;
  return parsed > 0 ? parsed : NCCL_VERSION_CODE;
}

ncclResult_t translated(horingResult_t result) {
  if (result == horingTimeout && level() < kLevelWithTimeout) return ncclRemoteError;
  return static_cast<ncclResult_t>(result);
}

ncclResult_t answer(horingResult_t result) noexcept {
  if (result != horingSuccess && result != horingInProgress) keep(horingGetLastError(nullptr));
  return translated(result);
}

ncclResult_t refuse(ncclResult_t code, const char* format, ...) noexcept {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  keep(text);
  return code;
}

ncclResult_t notServed(const char* name, const char* instead) noexcept {
  return refuse(ncclInvalidUsage, "horing does not serve %s: %s", name, instead);
}

void keepErrorOf(ncclComm_t comm) noexcept {
  if (const char* const text = horingGetLastError(own(comm)); *text) keep(text);
}

}  // namespace horing::nccl

using namespace horing::nccl;

NCCL_FACE(ncclResult_t, GetVersion, (int* version)) {
  if (!version) return refuse(ncclInvalidArgument, "version is NULL: expected where to put it");
  *version = level();
  return ncclSuccess;
}

NCCL_FACE(const char*, GetErrorString, (ncclResult_t result)) {
  return horingGetErrorString(static_cast<horingResult_t>(result));
}

NCCL_FACE(const char*, GetLastError, (ncclComm_t comm)) {
  try {
    auto& [latest_here, shown] = ThreadTexts::get();
    shown = comm ? horingGetLastError(own(comm)) : "";
    if (shown.empty()) shown = latest_here;
    if (!shown.empty()) return shown.c_str();
    Latest& all = latest();
    std::lock_guard lock(all.mutex);
    shown = all.text;
    return shown.c_str();
  } catch (...) {
    return "no memory, not even for a message";
  }
}

NCCL_FACE(void, ResetDebugInit, (void)) {}

NCCL_FACE(ncclResult_t, SetEncryption, (const ncclEncryptionConfig_t* config)) {
  if (!config || config->magic != NCCL_API_MAGIC || config->size < sizeof *config)
    return refuse(ncclInvalidArgument,
                  "config is NULL or was not initialised: begin with NCCL_ENCRYPTION_CONFIG_INITIALIZER");
  if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return ncclSuccess;
  if (config->mode != NCCL_ENCRYPTION_MODE_PSK)
    return refuse(ncclInvalidArgument, "config.mode is %d: expected an ncclEncryptionMode_t", config->mode);
  return notServed("NCCL_ENCRYPTION_MODE_PSK",
                   "connections prove the job's key, which the unique ID has, but data is not encrypted");
}
