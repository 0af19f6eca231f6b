#pragma once
// The layers of a model as parameters of a PaRO client, one parameter for each layer. A pass visits the layers upwards or downwards. Each
// bucket is gathered one bucket before its use and released after it, and its gradients are reduced as soon as they are complete.
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

// The client's last error on this thread, if a call failed.
Status statusOfParo(horingResult_t result);

struct ShardingSettings {
  horingParoStrategy_t strategy = horingParoAuto;
  uint64_t memory_limit = 0;  // bytes; for horingParoAuto
  size_t bucket_bytes = 0;    // 0: the client's default
  int micro_steps = 1;
};

enum class Direction { kUp, kDown };

// One thread. Neither copied nor moved.
class ShardedLayers {
 public:
  // Collective. `comm` must outlive it.
  static Result<std::unique_ptr<ShardedLayers>> create(horingComm_t comm, const ShardingSettings& settings,
                                                       const std::vector<horingParoParam_t>& layers);
  ~ShardedLayers();
  ShardedLayers(const ShardedLayers&) = delete;
  ShardedLayers& operator=(const ShardedLayers&) = delete;

  horingParo_t client() const { return client_; }

  // A layer's parameters, valid until leave() of the same layer. Layers are entered one after the other in the direction's order,
  // down to `lowest`.
  Result<const void*> enter(int layer, Direction direction);
  Status leave(int layer, Direction direction);
  // Where to put the gradient of a layer that was entered on the way down, all 0 at first; null when it is frozen.
  Result<void*> gradient(int layer);
  // On the way down, nothing below this layer is needed.
  void stopAt(int layer) { lowest_ = layer; }

  // Calls update(shard) for every part of the state that this rank owns, after gradients have been synchronized.
  template <typename Update>
  Status update(Update&& update) {
    for (int bucket : trainable_buckets_) {
      horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
      HORING_TRY(statusOfParo(horingParoGetShard(client_, bucket, &shard)));
      update(shard);
    }
    return {};
  }

 private:
  ShardedLayers(horingParo_t client, const std::vector<horingParoParam_t>& layers)
      : client_(client), layers_(layers) {}
  Status findBuckets();
  int layerCount() const { return static_cast<int>(layers_.size()); }
  int bucketOf(int layer) const { return buckets_[static_cast<size_t>(layer)]; }
  // The layer after this one, -1 at the end.
  int next(int layer, Direction direction) const;
  Status gather(int bucket);

  horingParo_t client_;
  std::vector<horingParoParam_t> layers_;
  std::vector<int> buckets_;  // of each layer
  std::vector<int> trainable_buckets_;
  std::vector<bool> gathered_;  // by bucket
  int open_ = -1;               // the bucket whose gradients are open
  int lowest_ = 0;
};

}  // namespace horing::paro
