#pragma once
// The memory that the ranks of a team take of their GPUs, each its own and once, and the queues in it, which plans and messages share.
#include <map>
#include <memory>
#include <vector>

#include "comm/gpu/remote_gpus.h"
#include "comm/gpu/spare_queues.h"
#include "cuda/device.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/plan_image.h"
#include "engine/cuda/queue.h"
#include "engine/cuda/queue_shape.h"

namespace horing {

// A resource; one thread at a time.
class TeamMemory {
 public:
  // Of each rank's GPU.
  static constexpr size_t kBytes = cuda::kGpuMemoryBytes;

  // `remote` has the queues to ranks of other processes; null: all are of this one.
  TeamMemory(int ranks, RemoteGpus* remote) : remote_(remote), ranks_(static_cast<size_t>(ranks)) {}
  TeamMemory(const TeamMemory&) = delete;
  TeamMemory& operator=(const TeamMemory&) = delete;

  // By rank, null: of another process.
  using Devices = std::vector<std::shared_ptr<const CudaDevice>>;
  Status take(const Devices& devices);
  // Of ranks of one process, before anything else has a place: whether what each GPU writes into each other one arrives.
  Status provePeerAccess(const Devices& devices);
  // Then how queues are: of ranks of one process, and of others as all have agreed.
  Status shapeQueues(int32_t window);
  void adoptQueues();
  const cuda::QueueShape& shape() const { return shape_; }
  // Of any plan; those beyond, up to mostParts(), have spare queues.
  int32_t parts() const { return parts_; }
  int32_t mostParts() const { return remote_ ? remote_->mostParts() : cuda::kMaxParts; }
  SpareQueues& spareQueues() { return spare_queues_; }

  // Null: of another process, or there is none.
  cuda::Memory* of(int rank) const { return ranks_[static_cast<size_t>(rank)].memory.get(); }
  // Of a plan and of messages it is the same: kernels of either find what the other left there. The ends that are here.
  struct QueueEnds {
    cuda::Port* send;
    cuda::Port* receive;
  };
  using QueueUse = RemoteGpus::QueueUse;
  Result<QueueEnds> queue(const GpuQueueName& name, QueueUse use);
  // Where the blocks of a plan of a rank tell that they run.
  Result<cuda::Activity*> activity(int rank, size_t blocks);

  // What each rank takes from here on is for one plan, or for all messages: then it stays, or is given back.
  void begin();
  void keep() { spare_queues_.keep(); }
  Status giveBack();

  // No kernel runs any more. That of a rank stays if it is kept before, for other processes have it open.
  void keepUntilTheEnd(int rank);
  void release();
  // Kernels may still run: it stays as it is.
  void leak();

 private:
  struct Rank {
    std::unique_ptr<cuda::Memory> memory{};
    std::byte* spare = nullptr;  // in it, unless `remote_` knows
    // Pinned, of plans, unless `remote_` has a place for that.
    std::unique_ptr<cuda::Memory> told{};
    // At begin().
    size_t used = 0, used_told = 0;
  };
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool isHere(int rank) const { return !remote_ || rank == remote_->rank(); }
  std::byte* spare(int rank) const { return remote_ ? remote_->spare(rank) : at(rank).spare; }
  Result<QueueEnds> makeQueue(const GpuQueueName& name, QueueUse use);
  Result<cuda::Port*> place(int rank, const cuda::Port& port);

  RemoteGpus* const remote_;
  std::vector<Rank> ranks_;
  cuda::QueueShape shape_;
  int32_t parts_ = 1;
  std::map<GpuQueueName, QueueEnds> queues_;
  std::vector<GpuQueueName> new_queues_;  // since begin()
  SpareQueues spare_queues_;
};

}  // namespace horing
