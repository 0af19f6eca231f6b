#include "horing_paro/train/sharded_layers.h"

#include <algorithm>

namespace horing::paro {

Status statusOfParo(horingResult_t result) {
  if (result == horingSuccess) return {};
  return Status(static_cast<Code>(result), horingParoGetLastError());
}

Result<std::unique_ptr<ShardedLayers>> ShardedLayers::create(horingComm_t comm,
                                                             const ShardingSettings& settings,
                                                             const std::vector<horingParoParam_t>& layers) {
  horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
  config.strategy = settings.strategy;
  config.memoryLimit = settings.memory_limit;
  config.bucketBytes = settings.bucket_bytes;
  config.microSteps = settings.micro_steps;
  horingParo_t client = nullptr;
  HORING_TRY(statusOfParo(horingParoCreate(&client, comm, &config, layers.data(), layers.size())));
  std::unique_ptr<ShardedLayers> sharded(new ShardedLayers(client, layers));
  HORING_TRY(sharded->findBuckets());
  return sharded;
}

ShardedLayers::~ShardedLayers() {
  (void)horingParoDestroy(client_);
}

Status ShardedLayers::findBuckets() {
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    horingParoPlace_t place;
    HORING_TRY(statusOfParo(horingParoGetPlace(client_, layer, &place)));
    buckets_.push_back(place.bucket);
    if (layers_[layer].trainable && (trainable_buckets_.empty() || trainable_buckets_.back() != place.bucket))
      trainable_buckets_.push_back(place.bucket);
  }
  gathered_.assign(static_cast<size_t>(*std::max_element(buckets_.begin(), buckets_.end())) + 1, false);
  return {};
}

int ShardedLayers::next(int layer, Direction direction) const {
  if (direction == Direction::kUp) return layer + 1 < layerCount() ? layer + 1 : -1;
  return layer > lowest_ ? layer - 1 : -1;
}

Status ShardedLayers::gather(int bucket) {
  if (gathered_[static_cast<size_t>(bucket)]) return {};
  HORING_TRY(statusOfParo(horingParoGatherParams(client_, bucket)));
  gathered_[static_cast<size_t>(bucket)] = true;
  return {};
}

Result<const void*> ShardedLayers::enter(int layer, Direction direction) {
  HORING_TRY(gather(bucketOf(layer)));
  int ahead = layer;
  while (ahead >= 0 && bucketOf(ahead) == bucketOf(layer)) ahead = next(ahead, direction);
  if (ahead >= 0) HORING_TRY(gather(bucketOf(ahead)));
  const void* values = nullptr;
  HORING_TRY(statusOfParo(horingParoGetParam(client_, static_cast<size_t>(layer), &values)));
  return values;
}

Status ShardedLayers::leave(int layer, Direction direction) {
  const int after = next(layer, direction);
  const int bucket = bucketOf(layer);
  if (after >= 0 && bucketOf(after) == bucket) return {};
  HORING_TRY(statusOfParo(horingParoReleaseParams(client_, bucket)));
  gathered_[static_cast<size_t>(bucket)] = false;
  if (open_ != bucket || direction == Direction::kUp) return {};
  open_ = -1;
  return statusOfParo(horingParoReduceGrads(client_, bucket));
}

Result<void*> ShardedLayers::gradient(int layer) {
  if (!layers_[static_cast<size_t>(layer)].trainable) return static_cast<void*>(nullptr);
  if (open_ != bucketOf(layer)) {
    HORING_TRY(statusOfParo(horingParoOpenGrads(client_, bucketOf(layer))));
    open_ = bucketOf(layer);
  }
  void* values = nullptr;
  HORING_TRY(statusOfParo(horingParoGetGrad(client_, static_cast<size_t>(layer), &values)));
  return values;
}

}  // namespace horing::paro
