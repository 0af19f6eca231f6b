#pragma once
// Queues between kernels of several ranks of one node, which move data from GPU to GPU: ranks open each other's GPU memory (cuda/ipc.h),
// and hosts carry no data.
//
// Kernels at both ends wait for each other, so they must run concurrently: on separate GPUs, or on one GPU under MPS. Two ranks that share a
// GPU without MPS never get here: kernels serve no rank (termsOf(), comm/gpu/offer.h), and hosts carry everything.
//
// A neighbor is another rank of the node. The memory of each rank begins with a *mailbox* for each neighbor: a region that only this
// neighbor writes. All ranks compute the offset of each queue in each mailbox, so they exchange only a memory handle, and never use an
// address from a peer.
//
// A process must not free memory that another process has open. So each rank sets a flag in its mailbox when it has closed the memory.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "comm/gpu/offer.h"
#include "comm/links/transport_reach.h"
#include "cuda/ipc.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/queue.h"

namespace horing {

// The layout of the mailboxes of all ranks. A value, the same on every rank.
class GpuMailboxes {
 public:
  // `node_of_rank`: a label, equal for ranks of one node.
  explicit GpuMailboxes(std::vector<std::string> node_of_rank);
  // Ascending, without the rank itself.
  std::vector<int> neighborsOf(int rank) const;
  // A number for each node.
  std::vector<size_t> nodeOfRank() const;
  // The largest number of neighbors of any rank.
  size_t mostNeighbors() const { return most_neighbors_; }
  // The smallest number of neighbors of any rank.
  size_t leastNeighbors() const { return least_neighbors_; }
  // The bytes of all mailboxes in each rank's memory, with this many queues in each direction between two ranks; 0: no rank has neighbors.
  size_t bytes(const cuda::QueueShape& shape, int channels) const;

  // Call before the functions below: fixes the shape. Spare queues (comm/gpu/spare_queues.h) of this many bytes follow the mailboxes.
  void setShape(const cuda::QueueShape& shape, int channels, size_t spare_bytes);
  const cuda::QueueShape& shape() const { return shape_; }
  size_t bytes() const { return spareBegin() + spare_bytes_; }
  // Offsets in the memory of each rank. Of the spare queues:
  size_t spareBegin() const { return bytes(shape_, channels_); }
  // In the memory of `owner`, the flag that `neighbor` sets when it has closed the memory:
  size_t closedWord(int owner, int neighbor) const;
  // The queue of that channel from `neighbor`:
  size_t queueFrom(int owner, int neighbor, int channel) const;
  // The counter of the queue to `neighbor`:
  size_t counterOfQueueTo(int owner, int neighbor, int channel) const;

 private:
  std::vector<std::string> node_of_rank_;
  size_t most_neighbors_ = 0;
  size_t least_neighbors_ = SIZE_MAX;
  cuda::QueueShape shape_;
  int channels_ = 0;
  size_t spare_bytes_ = 0;
};

// For one rank. A resource; one thread at a time.
class GpuNeighbors {
 public:
  // The GPU memory that mailboxes may take on each rank.
  static constexpr size_t kMostBytes = size_t{16} << 20;

  // `here`: the ranks of this process.
  GpuNeighbors(int rank, GpuMailboxes mailboxes, std::set<int> here)
      : rank_(rank), mailboxes_(std::move(mailboxes)), here_(std::move(here)) {}
  GpuNeighbors(const GpuNeighbors&) = delete;
  GpuNeighbors& operator=(const GpuNeighbors&) = delete;

  GpuMailboxes& mailboxes() { return mailboxes_; }
  const GpuMailboxes& mailboxes() const { return mailboxes_; }
  // The handle by which neighbors open the memory of this rank's GPU. Nothing of `memory` may be allocated yet, and it must stay until
  // leave() takes it. Nothing: no neighbors, or an error that is logged.
  std::optional<CudaIpcHandle> offer(std::shared_ptr<const CudaDevice> device, cuda::Memory& memory,
                                     const Log& log);
  // Three steps, with an exchange among all ranks after each. First: opens the offered memory, as far as possible, and lets this rank's GPU
  // write to it.
  void open(const std::vector<GpuOffer>& offers, const Log& log);
  bool hasOpened(int peer) const { return opened_.contains(peer); }
  // Second: takes who has opened this rank's memory, as exchanged (bit `kOpened`), and checks whether the writes of their GPUs have
  // arrived.
  static constexpr size_t kOpened = 0;
  void listen(const TransportReach& opened, const Log& log);
  bool reachesBothWays(int peer) const { return hasOpened(peer) && heard_.contains(peer); }
  // Third: queues are used between ranks that reach each other both ways, as exchanged (bit `way`). Closes the memory of the others.
  void settle(const TransportReach& told, size_t way);
  // Call when all ranks have settled, or no rank opens any.
  void forgetClosed();

  bool reaches(int peer) const { return settled_ && hasOpened(peer); }
  // This rank's end of a queue to or from a reachable rank.
  cuda::Port port(int peer, int channel, bool sends) const;
  // The spare queues of this rank, or of a reachable rank.
  std::byte* spare(int rank) const;
  size_t count() const { return settled_ ? opened_.size() : 0; }

  // When no kernel of this rank runs any more: closes the opened memory, and waits a second for other processes to close this rank's
  // memory. Frees that memory when no rank of this process has it open any more. Returns it if other processes have it open, until this
  // process ends.
  std::shared_ptr<void> leave(std::shared_ptr<void> memory);
  // For kernels that may still run: closes nothing.
  void leak();

 private:
  // Lets this rank's GPU write into the peer's memory, as its kernels will.
  Status writeProof(int peer);
  bool hasArrived(int peer) const;
  void close(int peer);
  bool isClosedBy(int peer) const;

  const int rank_;
  GpuMailboxes mailboxes_;
  const std::set<int> here_;
  std::shared_ptr<const CudaDevice> device_;
  cuda::Memory* memory_ = nullptr;  // of this rank
  std::byte* begin_ = nullptr;      // the begin of the offered memory; null: nothing is offered
  size_t offered_ = 0;              // bytes offered
  std::unique_ptr<SharedMemory> shared_;
  bool settled_ = false;
  std::map<int, std::unique_ptr<OpenedMemory>> opened_;  // by rank
  std::set<int> openers_;  // ranks that have, or may have, this rank's memory open
  std::set<int> heard_;    // ranks whose GPUs' writes arrive here
};

}  // namespace horing
