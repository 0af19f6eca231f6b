#include "nccl/environment.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/output.h"
#include "base/word.h"
#include "nccl/banner.h"
#include "nccl/config.h"
#include "nccl/variables.h"

namespace horing::nccl {

namespace {

// The values passed to horing, by name. Never destroyed: calls may come during exit.
struct Told {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values;  // under mutex
};
Told& told() {
  static auto* const kept = new Told;
  return *kept;
}

// By horing's variables if set, else by NCCL's; under told().mutex.
Log logOf(int rank, int gpu) {
  const Result<Config> config = Config::fromLookup([](const char* name) -> const char* {
    const std::string_view wanted = name;
    if (!wanted.starts_with("HORING_DEBUG")) return nullptr;
    if (const char* const value = std::getenv(name); value && *value) return value;
    const auto found = told().values.find(wanted);
    return found == told().values.end() ? nullptr : found->second.c_str();
  });
  if (!config.ok()) return Log();
  return config.value().log(config.value().debug_form == "nccl" ? gpu : rank);
}

// Once in a process; under told().mutex.
void sayOnce() {
  static bool said = false;
  const Log log = logOf(-1, -1);
  if (said || !log.enabled(LogLevel::kInfo)) return;
  said = true;
  for (const std::string& name : namesThatAreSet()) {
    const std::optional<Found> found = find(name);
    if (found)
      log.info("nccl", "%s=%s (%s): %s", name.c_str(), found->value.c_str(), found->where.c_str(),
               fateOf(name).c_str());
  }
}

// Passes the values to horing; returns the first error.
horingResult_t tell() {
  horingResult_t first = horingSuccess;
  auto& values = told().values;
  for (const Mapping& mapping : mappings()) {
    const std::optional<std::string> value = mapping.value(findValue, mapping.from);
    const auto before = values.find(std::string_view(mapping.own));
    if (!value && before == values.end()) continue;
    const horingResult_t result = horingSetDefault(mapping.own, value ? value->c_str() : nullptr);
    if (first == horingSuccess) first = result;
    if (value) {
      values.insert_or_assign(mapping.own, *value);
    } else {
      values.erase(before);
    }
  }
  return first;
}

}  // namespace

ncclResult_t takeOverEnvironment() noexcept {
  try {
    const horingResult_t result = [] {
      std::lock_guard lock(told().mutex);
      const horingResult_t first = tell();
      sayOnce();
      return first;
    }();
    return answer(result);
  } catch (...) {
    return refuse(ncclSystemError, "no memory for the values of NCCL's variables");
  }
}

std::string originsOf(std::string_view text) {
  std::string origins;
  std::lock_guard lock(told().mutex);
  for (const Mapping& mapping : mappings()) {
    const auto is_told = told().values.find(std::string_view(mapping.own));
    const char* const set = std::getenv(mapping.own);
    if (is_told == told().values.end() || (set && *set) || text.find(mapping.own) == text.npos) continue;
    for (const char* const from : mapping.from)
      if (const auto value = findValue(from))
        origins += formatString(" (%s is set by %s=%s)", mapping.own, from, value->c_str());
  }
  return origins;
}

void overrideBy(Settings& settings) {
  const std::optional<std::string> blocking = findValue("NCCL_COMM_BLOCKING");
  if (blocking && (*blocking == "0" || *blocking == "1")) {
    settings.own.blocking = *blocking == "1" ? 1 : 0;
    settings.used = &settings.own;
  }
  // If the environment has no value, horing uses the default set here.
  for (const char* const name : {"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS"})
    if (findValue(name)) settings.own.maxCTAs = HORING_CONFIG_UNDEF_INT;
  if (findValue("NCCL_IB_TC")) settings.own.trafficClass = HORING_CONFIG_UNDEF_INT;
  if (findValue("NCCL_NET")) settings.own.netName = nullptr;
}

Log logFor(int rank, int gpu) {
  std::lock_guard lock(told().mutex);
  return logOf(rank, gpu);
}

void showBanner(int rank) noexcept {
  try {
    static bool shown = false;
    std::lock_guard lock(told().mutex);
    const auto level = told().values.find(std::string_view("HORING_DEBUG"));
    const bool wanted = level != told().values.end() && !isSameWord(level->second, "none");
    if (rank != 0 || !wanted || std::exchange(shown, true)) return;
    const std::string line = std::string(kBanner) + "\n";
    // A lost log line is not an error.
    [[maybe_unused]] const Status written = writeAll(logOf(-1, -1).descriptor(), line, "the log");
  } catch (...) {  // no memory: a line is lost
  }
}

}  // namespace horing::nccl
