#include "comm/gpu/team_memory.h"

#include <mutex>
#include <span>
#include <utility>

#include "cuda/reserve.h"
#include "engine/cuda/device_memory.h"
#include "engine/cuda/pinned_memory.h"

namespace horing {

Status TeamMemory::take(const Devices& devices) {
  for (size_t number = 0; number < devices.size(); ++number) {
    if (!devices[number]) continue;
    Rank& rank = ranks_[number];
    HORING_ASSIGN(rank.memory, cuda::makeDeviceMemory(devices[number], kBytes));
    if (!remote_) {
      HORING_ASSIGN(rank.told, cuda::makePinnedMemory(devices[number], GpuQueueSizes::kToldBytes));
    }
  }
  return {};
}

Status TeamMemory::provePeerAccess(const Devices& devices) {
  for (size_t from = 0; from < ranks_.size(); ++from)
    for (size_t to = 0; to < ranks_.size(); ++to) {
      const CudaDevice &source = *devices[from], &target = *devices[to];
      if (source.number() == target.number()) continue;
      cuda::Memory& into = *ranks_[to].memory;
      const uint64_t proof = CudaDevice::proofOf(static_cast<int>(from), static_cast<int>(to));
      HORING_ASSIGN(const uint64_t* const at, cuda::place(*ranks_[from].memory, std::span(&proof, 1)));
      HORING_ASSIGN(std::byte* const place, into.allocate(sizeof proof));
      HORING_TRY(source.pushNow(target, place, std::as_bytes(std::span(at, 1))));
      uint64_t arrived = 0;
      HORING_TRY(into.read(&arrived, place, sizeof arrived));
      if (arrived != proof)
        return makeStatus(Code::kUnhandledCudaError, "writes of GPU %d into GPU %d do not arrive, %s",
                          source.number(), target.number(), CudaDevice::kDroppedWrites);
    }
  for (const Rank& rank : ranks_) HORING_TRY(rank.memory->rewind(0));
  return {};
}

Status TeamMemory::shapeQueues(int32_t window) {
  const cuda::GpuQueues queues = cuda::gpuQueues(ranks_.size(), window);
  shape_ = queues.shape;
  parts_ = queues.parts;
  spare_queues_ = {ranks_.size(), shape_, cuda::kGpuSpareQueueBytes};
  for (Rank& rank : ranks_) {
    HORING_ASSIGN(rank.spare, rank.memory->allocate(cuda::kGpuSpareQueueBytes));
  }
  return {};
}

void TeamMemory::adoptQueues() {
  shape_ = remote_->shape();
  parts_ = remote_->parts();
  spare_queues_ = remote_->spareQueues();
}

Result<TeamMemory::QueueEnds> TeamMemory::queue(const GpuQueueName& name, QueueUse use) {
  if (const auto found = queues_.find(name); found != queues_.end()) return found->second;
  HORING_ASSIGN(const QueueEnds ends, makeQueue(name, use));
  queues_.emplace(name, ends);
  new_queues_.push_back(name);
  return ends;
}

Result<TeamMemory::QueueEnds> TeamMemory::makeQueue(const GpuQueueName& name, QueueUse use) {
  const bool sends = isHere(name.sender), receives = isHere(name.receiver);
  cuda::Queue queue;
  if (name.part >= parts_ && !spare_queues_.joinsNodes(name)) {
    const SpareQueues::Place& at = spare_queues_.placeOf(name);
    queue = cuda::layQueue(shape_, spare(name.receiver) + at.receivers, spare(name.sender) + at.senders);
  } else if (sends && receives) {
    HORING_ASSIGN(queue, cuda::makeQueue(shape_, *of(name.sender), *of(name.receiver)));
  } else {
    const int channel = cuda::bridgeChannel(name.channel, name.part);
    HORING_ASSIGN((sends ? queue.send : queue.receive),
                  remote_->port({sends ? name.receiver : name.sender, channel, sends},
                                name.part < parts_ ? use : QueueUse::kSpare));
  }
  QueueEnds ends{};
  if (sends) {
    HORING_ASSIGN(ends.send, place(name.sender, queue.send));
  }
  if (receives) {
    HORING_ASSIGN(ends.receive, place(name.receiver, queue.receive));
  }
  return ends;
}

Result<cuda::Port*> TeamMemory::place(int rank, const cuda::Port& port) {
  return cuda::place(*of(rank), std::span(&port, 1));
}

Result<cuda::Activity*> TeamMemory::activity(int rank, size_t blocks) {
  if (remote_) return remote_->activity(blocks);
  HORING_ASSIGN(std::byte* const told, at(rank).told->allocate(blocks * sizeof(cuda::Activity)));
  return reinterpret_cast<cuda::Activity*>(told);
}

void TeamMemory::begin() {
  new_queues_.clear();
  for (Rank& rank : ranks_) {
    rank.used = rank.memory ? rank.memory->used() : 0;
    rank.used_told = rank.told ? rank.told->used() : 0;
  }
}

Status TeamMemory::giveBack() {
  spare_queues_.giveBack();
  for (const GpuQueueName& name : new_queues_) queues_.erase(name);
  for (const Rank& rank : ranks_) {
    if (rank.memory) HORING_TRY(rank.memory->rewind(rank.used));
    if (rank.told) HORING_TRY(rank.told->rewind(rank.used_told));
  }
  return {};
}

// Kept reachable for leak checkers.
void TeamMemory::keepUntilTheEnd(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
  CudaReserve::ofProcess().forget();
}

void TeamMemory::release() {
  queues_.clear();
  for (Rank& rank : ranks_) {
    rank.memory.reset();
    rank.told.reset();
  }
}

void TeamMemory::leak() {
  for (Rank& rank : ranks_) {
    (void)rank.memory.release();
    (void)rank.told.release();
  }
}

}  // namespace horing
