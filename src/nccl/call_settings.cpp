#include "nccl/call_settings.h"

#include <climits>
#include <cstddef>
#include <string_view>

#include "base/word.h"
#include "nccl/config.h"

namespace horing::nccl {

namespace {

static_assert(sizeof(ncclCollConfig_t) == 72);
// 2.31 had all fields except the last.
constexpr size_t kBytesIn231 = offsetof(ncclCollConfig_t, launchCompletionEvent);

bool isOutside(int value, int least, int most) {
  return value != NCCL_CONFIG_UNDEF_INT && (value < least || value > most);
}

// The same ranges as in communicator settings of the same names.
ncclResult_t checkResources(const ncclCollConfig_t& given) {
  const struct {
    const char* name;
    int value, least, most;
  } numbers[] = {
      {"minCTAs", given.minCTAs, 1, INT_MAX},
      {"maxCTAs", given.maxCTAs, 1, INT_MAX},
      {"nvlsCTAs", given.nvlsCTAs, 1, INT_MAX},
      {"cgaClusterSize", given.cgaClusterSize, 0, 8},
  };
  for (const auto& [name, value, least, most] : numbers)
    if (isOutside(value, least, most))
      return refuse(ncclInvalidArgument, "config.%s is %d: expected %d to %d, or undefined", name, value,
                    least, most);
  if (isOutside(given.CTAPolicy, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO))
    return refuse(ncclInvalidArgument, "config.CTAPolicy is %d: expected NCCL_CTA_POLICY_...",
                  given.CTAPolicy);
  return checkBlocks(given.minCTAs, given.maxCTAs);
}

// NCCL's algorithms, as algSelection may name them.
constexpr std::string_view kAlgorithms[] = {"ring",     "tree", "collnetdirect", "collnetchain", "nvls",
                                            "nvlstree", "pat"};

bool isKnownAlgorithm(std::string_view word) {
  for (const std::string_view name : kAlgorithms)
    if (isSameWord(name, word)) return true;
  return false;
}

bool areKnownAlgorithms(std::string_view list) {
  for (size_t end = list.find(','); end != std::string_view::npos; end = list.find(',')) {
    if (!isKnownAlgorithm(list.substr(0, end))) return false;
    list.remove_prefix(end + 1);
  }
  return isKnownAlgorithm(list);
}

// NULL and an empty text leave the choice to the library. Without force, names are a wish.
ncclResult_t readAlgorithm(const ncclCollConfig_t& given, CallOptions& options) {
  if (isOutside(given.forceAlgSelection, 0, 1))
    return refuse(ncclInvalidArgument, "config.forceAlgSelection is %d: expected 0 or 1",
                  given.forceAlgSelection);
  const char* const names = given.algSelection;
  if (!names || !*names || given.forceAlgSelection == 0) return ncclSuccess;
  if (!areKnownAlgorithms(names))
    return refuse(ncclInvalidArgument,
                  "config.algSelection is '%.100s': horing does not know all of these algorithms", names);
  options.algorithm = names;
  return ncclSuccess;
}

}  // namespace

ncclResult_t readCallSettings(const ncclCollConfig_t* given, CallOptions& options) noexcept {
  if (!given) return ncclSuccess;
  if (given->magic != NCCL_API_MAGIC || given->size < kBytesIn231)
    return refuse(ncclInvalidArgument,
                  "config has size %zu and magic 0x%x: begin with NCCL_COLLCONFIG_INITIALIZER", given->size,
                  given->magic);
  if (const ncclResult_t resources = checkResources(*given); resources != ncclSuccess) return resources;
  if (const ncclResult_t algorithm = readAlgorithm(*given, options); algorithm != ncclSuccess)
    return algorithm;
  const bool has_event = given->size >= sizeof *given && given->version >= NCCL_VERSION(2, 32, 0);
  if (has_event && given->launchCompletionEvent)
    return notServed("config.launchCompletionEvent",
                     "hosts run parts of operations, so there is no moment at which all kernels have begun; "
                     "record an event before or behind the call");
  return readCallOptions(given->ext, options);
}

}  // namespace horing::nccl
