#include "capi/settings.h"

#include <strings.h>

#include <cstring>

namespace horing {

namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr int kMaxTimeoutMs = 86'400'000;  // as HORING_TIMEOUT_MS

Status checkInitialised(const horingConfig_t& config) {
  if (config.size == sizeof(horingConfig_t) && config.magic == HORING_API_MAGIC) return {};
  return makeStatus(Code::kInvalidArgument,
                    "config has size %zu and magic 0x%x: expected %zu and 0x%x. Begin with "
                    "horingConfig_t config = HORING_CONFIG_INITIALIZER, of the header of this library",
                    config.size, config.magic, sizeof(horingConfig_t), HORING_API_MAGIC);
}

}  // namespace

Status applySettings(const horingConfig_t* config, CommunicatorOptions& options) {
  if (!config) return {};
  HORING_TRY(checkInitialised(*config));
  if (config->blocking != HORING_CONFIG_UNDEF_INT && config->blocking != 1)
    return makeStatus(Code::kInvalidArgument,
                      "config.blocking is %d: expected 1 or undefined; a communicator that is made without "
                      "blocking is not available, use a thread",
                      config->blocking);
  if (config->netName && ::strcasecmp(config->netName, "socket") != 0)
    return makeStatus(Code::kInvalidArgument, "config.netName is '%s': the only network here is Socket",
                      config->netName);
  if (config->timeoutMs != HORING_CONFIG_UNDEF_INT) {
    if (config->timeoutMs < 1 || config->timeoutMs > kMaxTimeoutMs)
      return makeStatus(Code::kInvalidArgument, "config.timeoutMs is %d: expected 1 to %d", config->timeoutMs,
                        kMaxTimeoutMs);
    options.config.timeout_ms = config->timeoutMs;
  }
  if (config->commName) options.name.assign(config->commName, ::strnlen(config->commName, kMaxNameBytes));
  return {};
}

}  // namespace horing
