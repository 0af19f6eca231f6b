#pragma once
// The assignment of parameters to buckets: a value, the same on every rank.
#include <span>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"
#include "paro/blocks.h"
#include "paro/names.h"

namespace horing::paro {

inline constexpr size_t kDefaultBucketBytes = size_t{32} << 20;
inline constexpr size_t kMaxParams = size_t{1} << 24;
// The most elements of a parameter, and of all: sizes in bytes do not overflow.
inline constexpr size_t kMaxElements = size_t{1} << 52;

struct BucketLayout {
  horingDataType_t own_type = horingFloat32;  // of its parameters
  horingDataType_t type = horingFloat32;      // the wire type
  horingDataType_t grad_type = horingFloat32;
  bool trainable = false;
  size_t count = 0;              // elements
  Padded padded{};               // elements beyond `count` are always 0
  std::vector<size_t> params{};  // their numbers, in order

  horingDataType_t stateType() const;
  // Whether there are masters beside the stored parameters.
  bool hasMaster() const;
};

struct BucketList {
  std::vector<BucketLayout> buckets;
  std::vector<horingParoPlace_t> places;  // by parameter
  uint64_t params = 0;                    // elements
  uint64_t trainable = 0;

  // The longest bucket of parameters, and of gradients.
  size_t longestBytes() const;
  size_t longestGradBytes() const;
};

// Parameters go, in order, into the open bucket of their kind (unit, type, trainable or not); a parameter that would make it longer than
// config.bucketBytes opens the next bucket.
BucketList layBuckets(std::span<const horingParoParam_t> params, std::span<const int> units,
                      const horingParoConfig_t& config, const Blocks& blocks);

// `names`: as errors say them; may be empty.
Status checkParams(std::span<const horingParoParam_t> params, const Names& names);

}  // namespace horing::paro
