#pragma once
// Structs of paro.h that begin with their size, which programs take from their initialisers.
#include <cstddef>

#include "base/status.h"
#include "base/versioned_struct.h"
#include "horing/paro.h"

namespace horing::paro {

struct SizeRule {
  const char* name;         // as errors say it
  const char* initialiser;  // HORING_PARO_..._INITIALIZER
  size_t least;             // bytes of the first version
};
template <typename Struct>
inline constexpr SizeRule kSizeRule{};
template <>
inline constexpr SizeRule kSizeRule<horingParoConfig_t> = {"config", "CONFIG",
                                                           offsetof(horingParoConfig_t, units)};
template <>
inline constexpr SizeRule kSizeRule<horingParoMemory_t> = {"config.memory", "MEMORY",
                                                           sizeof(horingParoMemory_t)};
template <>
inline constexpr SizeRule kSizeRule<horingParoModel_t> = {"model", "MODEL",
                                                          offsetof(horingParoModel_t, isBucket)};
template <>
inline constexpr SizeRule kSizeRule<horingParoEstimate_t> = {"estimate", "ESTIMATE",
                                                             sizeof(horingParoEstimate_t)};
template <>
inline constexpr SizeRule kSizeRule<horingParoInfo_t> = {"info", "INFO", sizeof(horingParoInfo_t)};
template <>
inline constexpr SizeRule kSizeRule<horingParoUsage_t> = {"usage", "USAGE", sizeof(horingParoUsage_t)};
template <>
inline constexpr SizeRule kSizeRule<horingParoShard_t> = {"shard", "SHARD", sizeof(horingParoShard_t)};

template <typename Struct>
Status checkSize(const Struct& given) {
  constexpr SizeRule kRule = kSizeRule<Struct>;
  if (mayBeSizeOf<Struct>(given.size, kRule.least)) return {};
  return makeStatus(Code::kInvalidArgument, "%s.size is %zu: begin with HORING_PARO_%s_INITIALIZER",
                    kRule.name, given.size, kRule.initialiser);
}

// What the library reads. `own` has the initialiser's value for each field that the caller's header lacks.
template <typename Struct>
Status readSized(const Struct& given, Struct& own) {
  HORING_TRY(checkSize(given));
  if (const auto at = takeKnownFields(given, own, {0}))
    return makeStatus(
        Code::kInvalidArgument,
        "%s.size is %zu, and byte %zu is set, but this library knows only the fields in the first %zu bytes: "
        "leave the others 0, or use the newer library",
        kSizeRule<Struct>.name, given.size, *at, sizeof own);
  own.size = sizeof own;
  return {};
}

}  // namespace horing::paro
