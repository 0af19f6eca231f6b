#include "capi/settings.h"

#include <limits.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/versioned_struct.h"
#include "base/word.h"

namespace horing {

namespace {

constexpr size_t kMaxNameBytes = 128;

// The least size of the struct in any version of the header: `size`, `magic` and `version` come first.
constexpr size_t kLeastBytes = offsetof(horingConfig_t, blocking);

struct Kind {
  const char* name;         // the argument's name
  const char* initialiser;  // the name of its initialiser
};

// `own` has the values of missing fields.
template <typename Settings>
Result<Settings> readSettings(const Settings* given, Settings own, const Kind& kind) {
  static_assert(offsetof(Settings, magic) == offsetof(horingConfig_t, magic) &&
                sizeof(Settings) >= kLeastBytes);
  if (given->magic != HORING_API_MAGIC || !mayBeSizeOf<Settings>(given->size, kLeastBytes))
    return makeStatus(Code::kInvalidArgument,
                      "%s has size %zu and magic 0x%x: expected %zu and 0x%x. Begin with %s", kind.name,
                      given->size, given->magic, sizeof(Settings), HORING_API_MAGIC, kind.initialiser);
  if (const auto at = takeKnownFields(*given, own, {0, HORING_CONFIG_UNDEF_INT}))
    return makeStatus(Code::kInvalidArgument,
                      "%s has size %zu and sets something at byte %zu, but this library knows only fields in "
                      "the first %zu bytes: leave it undefined, or use a newer library",
                      kind.name, given->size, *at, sizeof own);
  return own;
}

// An integer setting.
struct Number {
  const char* name;
  int value;
  IntRange range;  // the range of the corresponding variable
};
constexpr IntRange kYesOrNo{0, 1};
constexpr IntRange kFromOne{1, INT_MAX};

Status check(const Number& number) {
  const auto [least, most] = number.range;
  if (number.value == HORING_CONFIG_UNDEF_INT || (number.value >= least && number.value <= most)) return {};
  return makeStatus(Code::kInvalidArgument, "%s is %d: expected %lld to %lld, or undefined", number.name,
                    number.value, static_cast<long long>(least), static_cast<long long>(most));
}

// Ignores undefined fields.
template <typename Setting>
Status set(const Number& number, Setting& setting) {
  HORING_TRY(check(number));
  if (number.value != HORING_CONFIG_UNDEF_INT) setting = static_cast<Setting>(number.value);
  return {};
}

// Checks fields without effect. NCCL refuses the same values.
Status checkIgnored(const horingConfig_t& config) {
  const Number numbers[] = {
      {"config.cgaClusterSize", config.cgaClusterSize, {0, 8}},
      {"config.minCTAs", config.minCTAs, kFromOne},
      {"config.splitShare", config.splitShare, kYesOrNo},
      {"config.collnetEnable", config.collnetEnable, kYesOrNo},
      {"config.CTAPolicy", config.CTAPolicy, {0, HORING_CTA_POLICY_EFFICIENCY | HORING_CTA_POLICY_ZERO}},
      {"config.shrinkShare", config.shrinkShare, kYesOrNo},
      {"config.nvlsCTAs", config.nvlsCTAs, kFromOne},
      {"config.nChannelsPerNetPeer", config.nChannelsPerNetPeer, kFromOne},
      {"config.nvlinkCentricSched", config.nvlinkCentricSched, kYesOrNo},
      {"config.graphUsageMode", config.graphUsageMode, {0, 2}},
      {"config.numRmaCtx", config.numRmaCtx, kFromOne},
      {"config.maxP2pPeers", config.maxP2pPeers, kFromOne},
      {"config.graphStreamOrdering", config.graphStreamOrdering, kYesOrNo},
      {"config.launchOrderImplicit", config.launchOrderImplicit, kYesOrNo},
      {"config.rmaEagerInit", config.rmaEagerInit, kYesOrNo},
      {"config.hostCftMode", config.hostCftMode, {1, 3}},
      {"config.nvlsHostMode", config.nvlsHostMode, {0, INT_MAX}},
  };
  for (const Number& number : numbers) HORING_TRY(check(number));
  if (config.maxCTAs != HORING_CONFIG_UNDEF_INT && config.minCTAs > config.maxCTAs)
    return makeStatus(Code::kInvalidArgument,
                      "config.minCTAs is %d: expected at most config.maxCTAs, which is %d", config.minCTAs,
                      config.maxCTAs);
  return {};
}

// A list of transports with one network replaced by the other.
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
  HORING_ASSIGN(const horingConfig_t config,
                readSettings(given, horingConfig_t HORING_CONFIG_INITIALIZER,
                             {"config", "horingConfig_t config = HORING_CONFIG_INITIALIZER"}));
  Config& own = options.config;
  HORING_TRY(set({"config.blocking", config.blocking, kYesOrNo}, options.blocking));
  HORING_TRY(set({"config.maxCTAs", config.maxCTAs, rangeOf("HORING_GPU_BLOCKS")}, own.gpu_blocks));
  HORING_TRY(set({"config.trafficClass", config.trafficClass, rangeOf("HORING_IB_TC")}, own.ib_tc));
  HORING_TRY(set({"config.numRmaSig", config.numRmaSig, {0, INT_MAX}}, options.signals));
  HORING_TRY(checkIgnored(config));
  if (config.netName) {
    const bool is_socket = isSameWord(config.netName, "socket");
    if (!is_socket && !isSameWord(config.netName, "ib"))
      return makeStatus(Code::kInvalidArgument, "config.netName is '%s': expected NULL, \"Socket\" or \"IB\"",
                        config.netName);
    own.transports = is_socket ? withInsteadOf("socket", "verbs", own.transports)
                               : withInsteadOf("verbs", "socket", own.transports);
  }
  if (config.commName) options.name.assign(config.commName, ::strnlen(config.commName, kMaxNameBytes));
  return {};
}

namespace {

Result<horingOptions_t> readOptions(const horingOptions_t* given) {
  return readSettings(given, horingOptions_t HORING_OPTIONS_INITIALIZER,
                      {"options", "horingOptions_t options = HORING_OPTIONS_INITIALIZER"});
}

thread_local std::optional<horingOptions_t> thread_options;

}  // namespace

Status applySettings(const horingOptions_t* given, CommunicatorOptions& options) {
  if (!given) return {};
  HORING_ASSIGN(const horingOptions_t set_here, readOptions(given));
  Config& own = options.config;
  HORING_TRY(set({"options.timeoutMs", set_here.timeoutMs, rangeOf("HORING_TIMEOUT_MS")}, own.timeout_ms));
  HORING_TRY(set({"options.initTimeoutMs", set_here.initTimeoutMs, rangeOf("HORING_INIT_TIMEOUT_MS")},
                 own.init_timeout_ms));
  HORING_TRY(
      set({"options.reproducible", set_here.reproducible, rangeOf("HORING_REPRODUCIBLE")}, own.reproducible));
  bool by_kernels = own.gpu_path == "auto";
  HORING_TRY(set({"options.gpuKernels", set_here.gpuKernels, kYesOrNo}, by_kernels));
  own.gpu_path = by_kernels ? "auto" : "staged";
  return {};
}

Status setThreadOptions(const horingOptions_t* given, horingOptions_t* former) {
  CommunicatorOptions tried;
  HORING_TRY(applySettings(given, tried));
  std::optional<horingOptions_t> set_here;
  if (given) {
    HORING_ASSIGN(set_here, readOptions(given));
  }
  std::swap(thread_options, set_here);
  if (former) *former = set_here.value_or(horingOptions_t HORING_OPTIONS_INITIALIZER);
  return {};
}

Status applyThreadOptions(CommunicatorOptions& options) {
  return applySettings(thread_options ? &*thread_options : nullptr, options);
}

namespace {
thread_local std::optional<horingCallOptions_t> call_options;
}  // namespace

Status setCallOptions(const horingCallOptions_t* given, horingCallOptions_t* former) {
  std::optional<horingCallOptions_t> set_here;
  if (given) {
    HORING_ASSIGN(set_here,
                  readSettings(given, horingCallOptions_t HORING_CALL_OPTIONS_INITIALIZER,
                               {"options", "horingCallOptions_t options = HORING_CALL_OPTIONS_INITIALIZER"}));
    HORING_TRY(check({"options.timeoutMs", set_here->timeoutMs, rangeOf("HORING_TIMEOUT_MS")}));
    if (!std::memchr(set_here->algorithm, 0, sizeof set_here->algorithm))
      return makeStatus(Code::kInvalidArgument,
                        "options.algorithm has no closing 0: expected one of its %zu characters to be it",
                        sizeof set_here->algorithm);
  }
  std::swap(call_options, set_here);
  if (former) *former = set_here.value_or(horingCallOptions_t HORING_CALL_OPTIONS_INITIALIZER);
  return {};
}

Status applyCallOptions(const Communicator& communicator, Call& call) {
  if (!call_options) return {};
  if (call_options->timeoutMs != HORING_CONFIG_UNDEF_INT)
    call.timeout_ms = operationMs(call_options->timeoutMs);
  if (!*call_options->algorithm) return {};
  HORING_ASSIGN(call.algorithm, communicator.askedAlgorithm(call_options->algorithm, call.collective));
  return {};
}

}  // namespace horing
