#pragma once
// How parameters are laid into buckets: a value, the same on every rank.
#include <span>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

inline constexpr size_t kDefaultBucketBytes = size_t{32} << 20;
inline constexpr size_t kMaxParams = size_t{1} << 24;
// Elements of one parameter, and of all: leaves room for every size in bytes.
inline constexpr size_t kMaxElements = size_t{1} << 52;

struct BucketLayout {
  horingDataType_t type = horingFloat32;
  bool trainable = false;
  size_t count = 0;   // elements
  size_t padded = 0;  // rounded up to a multiple of the ranks; what follows `count` is always 0
};

struct BucketList {
  std::vector<BucketLayout> buckets;
  std::vector<horingParoPlace_t> places;  // of each parameter
  uint64_t params = 0;                    // elements
  uint64_t trainable = 0;

  // The widest gradient bucket.
  size_t longestGradBytes() const;
};

// Parameters go, in their order, into the open bucket of their kind (unit, type, trainable or not); one that would
// make it longer than bucket_bytes opens the next.
BucketList layBuckets(std::span<const horingParoParam_t> params, std::span<const int> units,
                      size_t bucket_bytes, int ranks);

Status checkParams(std::span<const horingParoParam_t> params);

}  // namespace horing::paro
