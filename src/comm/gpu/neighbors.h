#pragma once
// Queues between kernels of several processes of one node, which move data from GPU to GPU: processes let each other open the memory
// of their GPUs (cuda/ipc.h), and no host carries anything.
//
// Kernels at both ends wait for each other, so they must run at once: on GPUs of their own, or on one where MPS runs those of several
// processes. Two processes that share a GPU without MPS never get here: no kernel serves any of their ranks (termsOf(),
// comm/gpu/offer.h), and their hosts do all.
//
// The memory of each rank begins with a seat for each of its neighbors, the other ranks of its node: that one alone writes there.
// All ranks know where in which seat a queue lies, so a handle is all that they tell each other, and nothing that a peer says is
// taken for an address.
//
// Nobody may free memory that another process has open. So each says, in its seat, when it has closed it.
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

// Where the seats of all ranks are. A value, the same on every rank.
class GpuSeats {
 public:
  // By rank, what those of one node have in common.
  explicit GpuSeats(std::vector<std::string> node_of_rank);
  // Ascending, without the rank itself.
  std::vector<int> neighborsOf(int rank) const;
  // A number for each node.
  std::vector<size_t> nodeOfRank() const;
  // Of the rank that has most.
  size_t mostNeighbors() const { return most_neighbors_; }
  // And of the one that has least.
  size_t leastNeighbors() const { return least_neighbors_; }
  // Of the memory of each rank, from its begin on, where two ranks have so many queues in each direction; 0: no rank has neighbors.
  size_t bytes(const cuda::QueueShape& shape, int channels) const;

  // Before what follows: they have. Behind seats are so many bytes for spare queues (comm/gpu/spare_queues.h).
  void setShape(const cuda::QueueShape& shape, int channels, size_t spare_bytes);
  const cuda::QueueShape& shape() const { return shape_; }
  size_t bytes() const { return spareBegin() + spare_bytes_; }
  // In the memory of each rank, from its begin: where spare queues are, ...
  size_t spareBegin() const { return bytes(shape_, channels_); }
  // ... and in that of `owner` the word that `neighbor` sets when it has closed it, ...
  size_t closedWord(int owner, int neighbor) const;
  // ... the queue of that channel from it, ...
  size_t queueFrom(int owner, int neighbor, int channel) const;
  // ... and the counter of the one to it.
  size_t counterOfQueueTo(int owner, int neighbor, int channel) const;

 private:
  std::vector<std::string> node_of_rank_;
  size_t most_neighbors_ = 0;
  size_t least_neighbors_ = SIZE_MAX;
  cuda::QueueShape shape_;
  int channels_ = 0;
  size_t spare_bytes_ = 0;
};

// Of one rank. A resource; one thread at a time.
class GpuNeighbors {
 public:
  // What seats may take of each rank's GPU.
  static constexpr size_t kMostBytes = size_t{16} << 20;

  GpuNeighbors(int rank, GpuSeats seats) : rank_(rank), seats_(std::move(seats)) {}
  GpuNeighbors(const GpuNeighbors&) = delete;
  GpuNeighbors& operator=(const GpuNeighbors&) = delete;

  GpuSeats& seats() { return seats_; }
  const GpuSeats& seats() const { return seats_; }
  // For the others: by what they open the memory of this rank's GPU, of which nothing must have been given so far, and which must
  // stay until leave() says so. Nothing: there is nobody, or the log tells why not.
  std::optional<CudaIpcHandle> offer(std::shared_ptr<const CudaDevice> device, cuda::Memory& memory,
                                     const Log& log);
  // Three steps, between which all ranks tell each other. Opens what they offer, as far as that can be done, and has this rank's GPU write
  // there.
  void open(const std::vector<GpuOffer>& offers, const Log& log);
  bool hasOpened(int peer) const { return opened_.contains(peer); }
  // Who has opened this one's memory, as all have told (`kOpened` alone), and whether what their GPUs wrote has arrived.
  static constexpr size_t kOpened = 0;
  void listen(const TransportReach& opened, const Log& log);
  bool reachesBothWays(int peer) const { return hasOpened(peer) && heard_.contains(peer); }
  // From now on queues go to those that reach each other both ways: as all ranks have told, by `way`. The others are closed.
  void settle(const TransportReach& told, size_t way);
  // All have settled, or nobody opens any.
  void forgetClosed();

  bool reaches(int peer) const { return settled_ && hasOpened(peer); }
  // This rank's end of a queue to or from a rank that it reaches.
  cuda::Port port(int peer, int channel, bool sends) const;
  // Where spare queues are with this rank, or one that it reaches.
  std::byte* spare(int rank) const;
  size_t count() const { return settled_ ? opened_.size() : 0; }

  // No kernel of this rank runs any more. Closes what is open, and waits a second for the others to do so; false: some have not,
  // and this rank's memory must stay as long as the process.
  bool leave();
  // Kernels may still run: what is open stays.
  void leak();

 private:
  // Has this rank's GPU write into the peer's memory, as its kernels will.
  Status writeProof(int peer);
  bool hasArrived(int peer) const;
  void close(int peer);
  bool isClosedBy(int peer) const;

  const int rank_;
  GpuSeats seats_;
  std::shared_ptr<const CudaDevice> device_;
  cuda::Memory* memory_ = nullptr;  // of this rank
  std::byte* begin_ = nullptr;      // of it; null: nothing is offered
  size_t offered_ = 0;              // of it, from there on
  bool settled_ = false;
  std::map<int, std::unique_ptr<OpenedMemory>> opened_;  // by rank
  std::set<int> openers_;                                // of this rank's memory, or they may be
  std::set<int> heard_;                                  // what the GPUs of these write arrives here
};

}  // namespace horing
