#pragma once
// The other ranks of a communicator whose ranks met by an ID, for a rank's GPU (comm/gpu/team.h): whether kernels can serve all ranks,
// agreed through the control plane, and the queues to the ranks. Inside a node, where ranks open each other's GPU memory
// (comm/gpu/neighbors.h), queues are in GPU memory; otherwise they are in host memory, and proxies carry them.
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/gpu/bridged_queues.h"
#include "comm/gpu/neighbors.h"
#include "comm/gpu/offer.h"
#include "comm/gpu/plan_room.h"
#include "comm/gpu/proxies.h"
#include "comm/gpu/queue_sizes.h"
#include "comm/gpu/spare_queues.h"
#include "cuda/device.h"
#include "engine/cuda/bound_plan.h"
#include "engine/cuda/memory.h"

namespace horing {

// Warns that hosts carry everything although the user did not choose it. Called by one rank.
void warnOfHosts(const Log& log, const Status& why);

// Of one rank. A resource; one thread at a time. The communicator must outlive it.
class RemoteGpus {
 public:
  // Null: hosts serve all operations, see whyNot().
  static std::unique_ptr<RemoteGpus> of(Communicator& communicator);
  // The same on every rank. Error: ranks of one process share a GPU, or may do so.
  static Status whyNot(const Communicator& communicator);
  ~RemoteGpus() = default;
  RemoteGpus(const RemoteGpus&) = delete;
  RemoteGpus& operator=(const RemoteGpus&) = delete;

  int rank() const { return membership_.rank(); }

  struct Own {
    std::shared_ptr<const CudaDevice> device;
    Status made{};                   // error: kernels cannot serve this rank
    cuda::Memory* memory = nullptr;  // of its GPU, with nothing allocated yet; must outlive this object
    int resident_blocks = 0;
    uint32_t* abort = nullptr;       // see GpuProxyOptions,
    std::function<Status()> news{};  // see GpuProxyOptions
    int64_t timeout_ms = 0;          // for each exchange among all ranks
  };
  struct Verdict {
    Status why_not;  // ok: kernels serve all ranks
    GpuTerms terms{};
  };
  // Collective, once: the same verdict on all ranks. Errors: the control plane's.
  Result<Verdict> agree(const Own& own);

  // After a positive verdict, the same on all ranks: the room that messages leave to plans, if they take so many bytes of each GPU, and as
  // many activity words; the shape of queues (bridged queues have more slots), and the parts of any plan.
  PlanRoom planRoom(size_t message_bytes, size_t message_blocks) const;
  const cuda::QueueShape& shape() const { return sizes_.shape; }
  int32_t parts() const { return parts_; }
  // Spare queues for more parts, up to mostParts(); none if some ranks of a node are not neighbors.
  SpareQueues spareQueues() const;
  int32_t mostParts() const { return all_neighbors_ ? cuda::kMaxParts : sizes_.mostBridgedParts(); }
  std::byte* spare(int rank) const { return neighbors_.spare(rank); }
  // isNeighbor(): kernels of both ranks reach each other's memory. areAllNeighbors(): all pairs of ranks do, the same on each rank.
  bool isNeighbor(int peer) const { return neighbors_.reaches(peer); }
  size_t neighbors() const { return neighbors_.count(); }
  // The most neighbors of any rank, if all ranks of a node are neighbors; the same on every rank.
  size_t mostNeighbors() const { return neighbors_.mailboxes().mostNeighbors(); }
  bool areAllNeighbors() const { return all_neighbors_; }
  // Whether hosts may move messages between some ranks' GPUs without a copy (RDMA); the same on each rank.
  bool areSomeByRdma() const { return some_by_rdma_; }
  // The kernel's end of a queue to another rank, for a plan or for messages; `lane.end` is not used. Proxies carry a bridged queue from now
  // on. The other end may follow later.
  using QueueUse = BridgedQueues::Use;
  Result<cuda::Port> port(GpuProxy::Lane lane, QueueUse use);
  // The most parts of messages to proxied ranks; 0: kernels cannot send them, or there are no proxied ranks. The same on every rank.
  int32_t bridgedMessageParts() const;
  // Activity words for the blocks of a further plan, or of messages.
  Result<cuda::Activity*> activity(size_t blocks);
  Result<cuda::Activity*> activityOfMessages(size_t blocks);
  void launched(GpuProxy::Launch launch, uint64_t blocks) { proxies_->launched(launch, blocks); }
  // The peers of a launched message kernel that is not a replay.
  void launchedMessages(std::vector<int> peers) { proxies_->launchedMessages(std::move(peers)); }
  uint64_t memoryBytes() const;
  // When no kernel runs any more: waits until peers have received all data. `memory`: of this rank's GPU; it is freed, or returned if other
  // processes still have it open.
  std::shared_ptr<void> leave(std::shared_ptr<void> memory);
  // Stops the proxies while kernels may still run: their memory is never freed.
  void leak();

 private:
  explicit RemoteGpus(Communicator& communicator);
  using Blobs = std::vector<std::vector<std::byte>>;
  Result<Blobs> gather(std::span<const std::byte> mine, const Own& own) const;
  Result<GpuOffer> setUp(const Own& own);
  Status makeProxies(const Own& own);
  Status openNeighbors(const std::vector<GpuOffer>& offers, const Own& own);
  std::vector<std::byte> reach(const std::vector<GpuOffer>& offers);
  Status meet(Blobs told);
  // `met`: what meet() said; after an error nothing is started.
  GpuReady start(const Own& own, const Status& met);
  Status startProxies(const Own& own);
  size_t proxiedBy(size_t rank) const;
  // The transports to proxied ranks that may keep memory registered.
  std::set<size_t> keepersOfMemory() const;

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  GpuNeighbors neighbors_;
  std::shared_ptr<const CudaDevice> device_;
  const GpuQueueSizes sizes_;
  int32_t parts_ = 1;
  bool all_neighbors_ = true;
  bool all_of_nodes_neighbors_ = true;  // in each node, all ranks are neighbors
  bool some_by_rdma_ = false;
  std::vector<std::vector<bool>> proxied_;  // by two ranks: proxies carry the queues between them
  size_t most_proxied_ = 0;                 // of any rank
  std::vector<GpuReady> ready_;             // by rank
  std::unique_ptr<cuda::Memory> told_;      // pinned memory for activity words
  std::unique_ptr<BridgedQueues> queues_;   // null: not needed
  std::vector<int> transport_of_rank_;      // of the proxies
  const int proxy_count_;                   // the same on every rank
  std::unique_ptr<GpuProxies> proxies_;     // destroyed before the memory
};

}  // namespace horing
