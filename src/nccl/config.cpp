#include "nccl/config.h"

#include <cstddef>
#include <cstring>

#include "base/word.h"

namespace horing::nccl {

namespace {

static_assert(sizeof(ncclConfig_t) == 120 && sizeof(horingConfig_t) == sizeof(ncclConfig_t));
static_assert(sizeof(ncclSimInfo_t) == 24);

constexpr size_t kLeastBytes = offsetof(ncclConfig_t, blocking);
constexpr size_t kMostBytes = 4096;

// A field, and the first version whose callers set it. The size is not sufficient: some fields replaced padding, which is uninitialised in
// older structs.
struct Field {
  unsigned int since;
  size_t at;
  size_t bytes;
};
#define FIELD(since, name) \
  { since, offsetof(ncclConfig_t, name), sizeof(ncclConfig_t::name) }
constexpr Field kFields[] = {
    FIELD(21400, blocking),
    FIELD(21700, cgaClusterSize),
    FIELD(21700, minCTAs),
    FIELD(21700, maxCTAs),
    FIELD(21700, netName),
    FIELD(21800, splitShare),
    FIELD(22500, trafficClass),
    FIELD(22700, commName),
    FIELD(22700, collnetEnable),
    FIELD(22700, CTAPolicy),
    FIELD(22700, shrinkShare),
    FIELD(22700, nvlsCTAs),
    FIELD(22800, nChannelsPerNetPeer),
    FIELD(22800, nvlinkCentricSched),
    FIELD(22900, graphUsageMode),
    FIELD(22900, numRmaCtx),
    FIELD(23000, maxP2pPeers),
    FIELD(23005, graphStreamOrdering),
    FIELD(23100, launchOrderImplicit),
    FIELD(23100, numRmaSig),
    FIELD(23100, rmaEagerInit),
    FIELD(23100, hostCftMode),
    FIELD(23200, nvlsHostMode),
};
#undef FIELD
static_assert(offsetof(ncclConfig_t, nvlsHostMode) == offsetof(horingConfig_t, nvlsHostMode));

// Fields of a newer NCCL, unknown here, must be undefined or 0 (padding).
ncclResult_t checkUnknown(const std::byte* bytes, size_t size) {
  for (size_t at = sizeof(ncclConfig_t); at + sizeof(int) <= size; at += sizeof(int)) {
    int value = 0;
    std::memcpy(&value, bytes + at, sizeof value);
    if (value != 0 && value != NCCL_CONFIG_UNDEF_INT)
      return refuse(ncclInvalidArgument,
                    "config has %zu bytes and sets something at byte %zu, but this library knows only the "
                    "fields of NCCL 2.32, which are %zu bytes: leave it undefined",
                    size, at, sizeof(ncclConfig_t));
  }
  return ncclSuccess;
}

// Refuses a network that NCCL would search for among its plugins.
ncclResult_t checkNetwork(const char* name) {
  if (!name || isSameWord(name, "socket") || isSameWord(name, "ib")) return ncclSuccess;
  return refuse(ncclInvalidUsage, "config.netName is '%.100s': there are only \"Socket\" and \"IB\"", name);
}

// NCCL's own maximum.
constexpr int kMostBlocks = 1024;

}  // namespace

// The undefined value is less than any number.
ncclResult_t checkBlocks(int least, int most) noexcept {
  if (most == NCCL_CONFIG_UNDEF_INT || most < 1 || least <= most) return ncclSuccess;
  return refuse(ncclInvalidArgument, "config.minCTAs is %d: expected at most config.maxCTAs, which is %d",
                least, most);
}

ncclResult_t readConfig(const ncclConfig_t* given, Settings& settings) noexcept {
  settings.used = nullptr;
  if (!given) return ncclSuccess;
  if (given->magic != NCCL_API_MAGIC || given->size < kLeastBytes || given->size > kMostBytes)
    return refuse(
        ncclInvalidArgument,
        "config has size %zu and magic 0x%x: begin with ncclConfig_t config = NCCL_CONFIG_INITIALIZER",
        given->size, given->magic);
  const auto* const from = reinterpret_cast<const std::byte*>(given);
  auto* const to = reinterpret_cast<std::byte*>(&settings.own);
  for (const Field& field : kFields)
    if (given->version >= field.since && field.at + field.bytes <= given->size)
      std::memcpy(to + field.at, from + field.at, field.bytes);
  if (const ncclResult_t unknown = checkUnknown(from, given->size); unknown != ncclSuccess) return unknown;
  if (const ncclResult_t network = checkNetwork(settings.own.netName); network != ncclSuccess) return network;
  if (const ncclResult_t blocks = checkBlocks(settings.own.minCTAs, settings.own.maxCTAs);
      blocks != ncclSuccess)
    return blocks;
  // Compared above: horing must not compare with the clamped value.
  if (settings.own.maxCTAs > kMostBlocks) settings.own.maxCTAs = kMostBlocks;
  if (settings.own.minCTAs > kMostBlocks) settings.own.minCTAs = kMostBlocks;
  settings.used = &settings.own;
  return ncclSuccess;
}

}  // namespace horing::nccl
