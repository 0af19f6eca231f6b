#include "nccl/environment.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/output.h"
#include "base/thread_object.h"
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

// The log of this process, by horing's variables if set, else by NCCL's.
Log logOf(int rank) {
  const Result<Config> config = Config::fromLookup([](const char* name) -> const char* {
    const std::string_view wanted = name;
    if (!wanted.starts_with("HORING_DEBUG")) return nullptr;
    if (const char* const value = std::getenv(name); value && *value) return value;
    const auto found = told().values.find(wanted);
    return found == told().values.end() ? nullptr : found->second.c_str();
  });
  return config.ok() ? config.value().log(rank) : Log();
}

// Once in a process; under told().mutex.
void sayOnce() {
  static bool said = false;
  const Log log = logOf(-1);
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

// On one rank of a job, once in a process; under told().mutex.
void showBanner(int rank) {
  static bool shown = false;
  const auto level = told().values.find(std::string_view("HORING_DEBUG"));
  const bool wanted = level != told().values.end() && !isSameWord(level->second, "none");
  if (rank != 0 || !wanted || std::exchange(shown, true)) return;
  const std::string line = std::string(kBanner) + "\n";
  // A lost log line is not an error.
  [[maybe_unused]] const Status written = writeAll(logOf(-1).descriptor(), line, "the log");
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

void logBegin(ncclComm_t* place, int rank, int ranks) noexcept {
  try {
    std::lock_guard lock(told().mutex);
    showBanner(rank);
    logOf(rank).info("nccl",
                     "comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %x commId 0x0 - Init START",
                     static_cast<void*>(place), rank, ranks, -1, -1, 0);
  } catch (...) {  // no memory: a line is lost
  }
}

namespace {
// The calling thread's open group.
struct Begun {
  ncclComm_t* place;
  int rank, ranks;
};
using BegunInGroup = ThreadObject<std::vector<Begun>>;
}  // namespace

void logGroupEnd(ncclResult_t result) noexcept {
  try {
    for (const Begun& each : std::exchange(BegunInGroup::get(), {}))
      logEnd(each.place, each.rank, each.ranks, result);
  } catch (...) {  // no memory: lines are lost
  }
}

void logEnd(ncclComm_t* place, int rank, int ranks, ncclResult_t result) noexcept {
  if (result != ncclSuccess) return;
  try {
    if (groupIsOpen()) return BegunInGroup::get().push_back({place, rank, ranks});
    int gpu = -1;
    [[maybe_unused]] const horingResult_t asked = horingCommCuDevice(own(*place), &gpu);
    std::lock_guard lock(told().mutex);
    logOf(rank).info("nccl",
                     "comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %x commId 0x0 - Init COMPLETE",
                     static_cast<void*>(*place), rank, ranks, gpu, gpu, 0);
  } catch (...) {  // no memory: a line is lost
  }
}

}  // namespace horing::nccl
