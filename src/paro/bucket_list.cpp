#include "paro/bucket_list.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "paro/convert.h"

namespace horing::paro {

namespace {

horingDataType_t wireTypeOf(horingDataType_t own, const horingParoConfig_t& config) {
  const auto gathered = static_cast<horingDataType_t>(config.gatherType);
  return bytesOf(gathered) != 0 && bytesOf(gathered) < bytesOf(own) ? gathered : own;
}

}  // namespace

horingDataType_t BucketLayout::stateType() const {
  return stateTypeOf(own_type);
}

bool BucketLayout::hasMaster() const {
  return type != (trainable ? stateType() : own_type);
}

size_t BucketList::longestBytes() const {
  size_t longest = 0;
  for (const BucketLayout& bucket : buckets)
    longest = std::max(longest, bucket.padded.count * bytesOf(bucket.type));
  return longest;
}

size_t BucketList::longestGradBytes() const {
  size_t longest = 0;
  for (const BucketLayout& bucket : buckets)
    if (bucket.trainable) longest = std::max(longest, bucket.padded.count * bytesOf(bucket.grad_type));
  return longest;
}

BucketList layBuckets(std::span<const horingParoParam_t> params, std::span<const int> units,
                      const horingParoConfig_t& config, const Blocks& blocks) {
  const size_t bucket_bytes = config.bucketBytes ? config.bucketBytes : kDefaultBucketBytes;
  BucketList list;
  list.places.reserve(params.size());
  std::map<std::tuple<int, horingDataType_t, bool>, size_t> open;  // the open bucket of each kind
  for (size_t i = 0; i < params.size(); ++i) {
    const horingParoParam_t& param = params[i];
    const bool trainable = param.trainable != 0;
    const auto [found, is_new] = open.try_emplace({units[i], param.type, trainable}, 0);
    const horingDataType_t wire = wireTypeOf(param.type, config);
    const size_t limit = bucket_bytes / bytesOf(wire);
    if (is_new ||
        (list.buckets[found->second].count > 0 && list.buckets[found->second].count + param.count > limit)) {
      found->second = list.buckets.size();
      list.buckets.push_back(
          {param.type, wire, config.gradsInFloat32 ? stateTypeOf(wire) : wire, trainable, 0, {}});
    }
    BucketLayout& bucket = list.buckets[found->second];
    list.places.push_back({static_cast<int>(found->second), bucket.count, param.count});
    bucket.params.push_back(i);
    bucket.count += param.count;
    list.params += param.count;
    if (trainable) list.trainable += param.count;
  }
  for (BucketLayout& bucket : list.buckets) bucket.padded = blocks.padded(bucket.count, bytesOf(bucket.type));
  return list;
}

Status checkParams(std::span<const horingParoParam_t> params, const Names& names) {
  size_t left = kMaxElements;
  for (size_t i = 0; i < params.size(); ++i) {
    if (bytesOf(params[i].type) == 0)
      return makeStatus(Code::kInvalidArgument,
                        "%s has type %d: expected horingFloat16, horingBfloat16, horingFloat32 or "
                        "horingFloat64",
                        labelOf(names, i).c_str(), static_cast<int>(params[i].type));
    if (params[i].count > left)
      return makeStatus(Code::kInvalidArgument, "%s has %zu elements: expected at most 2^52 in all",
                        labelOf(names, i).c_str(), params[i].count);
    left -= params[i].count;
  }
  return {};
}

}  // namespace horing::paro
