#include "capi/settings.h"

#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace horing {

namespace {

constexpr size_t kMaxNameBytes = 128;

// What a horingConfig_t of an older or newer header can have.
constexpr size_t kLeastConfigBytes = offsetof(horingConfig_t, blocking);
constexpr size_t kMostConfigBytes = 4096;
static_assert(offsetof(horingConfig_t, reserved) + sizeof(int) == sizeof(horingConfig_t));

// The settings of whoever was compiled with an older header, which lacks the last ones, or a newer one, which has more.
Result<horingConfig_t> readConfig(const horingConfig_t* given) {
  if (given->magic != HORING_API_MAGIC || given->size < kLeastConfigBytes || given->size > kMostConfigBytes ||
      given->size % alignof(horingConfig_t) != 0)
    return makeStatus(Code::kInvalidArgument,
                      "config has size %zu and magic 0x%x: expected %zu and 0x%x. Begin with "
                      "horingConfig_t config = HORING_CONFIG_INITIALIZER",
                      given->size, given->magic, sizeof(horingConfig_t), HORING_API_MAGIC);
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  const auto* const bytes = reinterpret_cast<const std::byte*>(given);
  std::memcpy(&config, bytes, std::min(given->size, sizeof config));
  for (size_t at = sizeof config; at < given->size; at += sizeof(int)) {
    int value = 0;
    std::memcpy(&value, bytes + at, sizeof value);
    if (value != 0 && value != HORING_CONFIG_UNDEF_INT)
      return makeStatus(Code::kInvalidArgument,
                        "config has size %zu and sets something at byte %zu, of which this library, whose "
                        "config has %zu bytes, does not know: leave it undefined, or use a newer library",
                        given->size, at, sizeof config);
  }
  return config;
}

// A number of a horingConfig_t.
struct Number {
  const char* name;
  int value;
  IntRange range;  // that of the variable which says the same
};
constexpr IntRange kYesOrNo{0, 1};

// Leaves what is undefined as it is.
template <typename Setting>
Status set(const Number& number, Setting& setting) {
  if (number.value == HORING_CONFIG_UNDEF_INT) return {};
  const auto [least, most] = number.range;
  if (number.value < least || number.value > most)
    return makeStatus(Code::kInvalidArgument, "config.%s is %d: expected %lld to %lld, or undefined",
                      number.name, number.value, static_cast<long long>(least), static_cast<long long>(most));
  setting = static_cast<Setting>(number.value);
  return {};
}

// A list of transports with the one network in place of the other.
std::string withInsteadOf(std::string_view wanted, std::string_view other, std::string_view list) {
  std::string kept;
  bool is_there = false;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string_view each = list.substr(begin, end - begin);
    begin = end + 1;
    if (each == other) each = wanted;
    if (each == wanted && std::exchange(is_there, true)) continue;
    kept.append(kept.empty() ? "" : ",").append(each);
  }
  return is_there ? kept : kept.append(kept.empty() ? "" : ",").append(wanted);
}

}  // namespace

Status applySettings(const horingConfig_t* given, CommunicatorOptions& options) {
  if (!given) return {};
  HORING_ASSIGN(const horingConfig_t read, readConfig(given));
  const horingConfig_t* const config = &read;
  HORING_TRY(set({"blocking", config->blocking, kYesOrNo}, options.blocking));
  if (config->netName) {
    const bool is_socket = ::strcasecmp(config->netName, "socket") == 0;
    if (!is_socket && ::strcasecmp(config->netName, "ib") != 0)
      return makeStatus(Code::kInvalidArgument, "config.netName is '%s': expected NULL, \"Socket\" or \"IB\"",
                        config->netName);
    options.config.transports = is_socket ? withInsteadOf("socket", "verbs", options.config.transports)
                                          : withInsteadOf("verbs", "socket", options.config.transports);
  }
  Config& own = options.config;
  HORING_TRY(set({"maxCTAs", config->maxCTAs, rangeOf("HORING_GPU_BLOCKS")}, own.gpu_blocks));
  HORING_TRY(set({"trafficClass", config->trafficClass, rangeOf("HORING_IB_TC")}, own.ib_tc));
  HORING_TRY(set({"timeoutMs", config->timeoutMs, rangeOf("HORING_TIMEOUT_MS")}, own.timeout_ms));
  HORING_TRY(set({"reproducible", config->reproducible, rangeOf("HORING_REPRODUCIBLE")}, own.reproducible));
  if (config->reserved != HORING_CONFIG_UNDEF_INT)
    return makeStatus(Code::kInvalidArgument, "config.reserved is %d: leave it undefined", config->reserved);
  bool by_kernels = own.gpu_path == "auto";
  HORING_TRY(set({"gpuKernels", config->gpuKernels, kYesOrNo}, by_kernels));
  own.gpu_path = by_kernels ? "auto" : "staged";
  if (config->commName) options.name.assign(config->commName, ::strnlen(config->commName, kMaxNameBytes));
  return {};
}

}  // namespace horing
