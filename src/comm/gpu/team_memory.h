#pragma once
// The GPU memory of the ranks of a team, allocated once per rank, and the queues in it, which plans and messages share.
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
  // On each rank's GPU.
  static constexpr size_t kBytes = cuda::kGpuMemoryBytes;

  // `remote` has the queues to remote ranks; null: there are none.
  TeamMemory(int ranks, RemoteGpus* remote) : remote_(remote), ranks_(static_cast<size_t>(ranks)) {}
  TeamMemory(const TeamMemory&) = delete;
  TeamMemory& operator=(const TeamMemory&) = delete;

  // By rank; null: a remote rank.
  using Devices = std::vector<std::shared_ptr<const CudaDevice>>;
  Status take(const Devices& devices);
  // For ranks of one process, before any allocation: checks that writes of each GPU to each other GPU arrive.
  Status provePeerAccess(const Devices& devices);
  // Then fixes the shape of queues: among ranks that share this object, or as agreed with remote ranks.
  Status shapeQueues(int32_t window);
  void adoptQueues();
  const cuda::QueueShape& shape() const { return shape_; }
  // The parts of any plan; further parts, up to mostParts(), use spare queues.
  int32_t parts() const { return parts_; }
  int32_t mostParts() const { return remote_ ? remote_->mostParts() : cuda::kMaxParts; }
  SpareQueues& spareQueues() { return spare_queues_; }

  // Null: a remote rank, or no memory.
  cuda::Memory* of(int rank) const { return ranks_[static_cast<size_t>(rank)].memory.get(); }
  // The local ends of a queue. Plans and messages share it, and each continues with the state that the other left.
  struct QueueEnds {
    cuda::Port* send;
    cuda::Port* receive;
  };
  using QueueUse = RemoteGpus::QueueUse;
  Result<QueueEnds> queue(const GpuQueueName& name, QueueUse use);
  // Activity words of the blocks of a rank's plan.
  Result<cuda::Activity*> activity(int rank, size_t blocks);

  // Begins the allocations of one plan, or of all messages, which are later kept or freed.
  void begin();
  void keep() { spare_queues_.keep(); }
  Status giveBack();

  // When no kernel runs any more: frees what takeFrom() did not take.
  void release();
  std::shared_ptr<void> takeFrom(int rank) { return std::move(at(rank).memory); }
  // For memory that other processes have open.
  static void keepUntilTheEnd(std::shared_ptr<void> memory);
  // For kernels that may still run: frees nothing.
  void leak();

 private:
  struct Rank {
    std::unique_ptr<cuda::Memory> memory{};
    std::byte* spare = nullptr;  // inside `memory`, unless `remote_` has it
    // Pinned memory for activity words of plans, unless `remote_` has it.
    std::unique_ptr<cuda::Memory> told{};
    // Used bytes at begin().
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
