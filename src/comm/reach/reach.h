#pragma once
// Memory that peers access: buffers that users register, buffers that calls lend to transports, and buffers that ranks of a node access in
// place.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "comm/links/connector.h"
#include "comm/reach/buffer_users.h"
#include "comm/reach/lent_buffers.h"
#include "comm/reach/peer_buffers.h"
#include "comm/reach/registrations.h"
#include "engine/host/operation.h"
#include "transport/memory/segment_list.h"

namespace horing {

class CudaDevice;

// Used by the thread inside the communicator, except functions marked "Any thread".
class Reach {
 public:
  struct Parts {
    const JobId& communicator;
    int rank;
    Connector& connector;
    SegmentList* segments;      // memory that peers can map; null: none
    std::string ib_gpu_memory;  // the setting
    const Log& log;
    std::function<bool()> is_forked_child;  // if so, memory belongs to the parent
  };
  explicit Reach(Parts parts);

  // Any thread: horingCommRegister and horingCommDeregister. Null: registration gains nothing. `gpu`: the GPU of the memory; null: host
  // memory.
  Result<void*> registerMemory(std::byte* memory, size_t bytes, const CudaDevice* gpu = nullptr);
  Status deregister(const void* handle);
  // Any thread: whether a transfer of GPU memory needs no staging in host memory: the buffer is registered, and the peer's transport uses
  // it.
  bool movesInPlace(const Transfer& transfer) const;
  // Any thread: the name of the transport to a peer; empty for this rank itself.
  const char* transportTo(int peer) const;
  // Any thread: whether this rank has the transport of that name.
  bool hasTransport(std::string_view name) const { return parts_.connector.has(name); }
  // Bytes that this rank's transports moved in place.
  DataMoved dataMoved() const { return parts_.connector.dataMoved(); }

  // Lends a call's buffers until it has ended and they are taken back. `failed`: messages in flight must not access them any more.
  void lend(uint32_t transports, const HostOperation& operation, const Call& call);
  void lend(uint32_t transports, std::span<const Transfer> transfers);
  void takeBack(bool failed) { lent_.takeBack(failed, 0); }
  void takeBackAll() { lent_.takeBack(/*failed=*/true); }
  // For calls that have tickets.
  LentBuffers& lent() { return lent_; }

  // Enables access to peer buffers among the ranks of a node. Without this call asksPeers() returns false.
  void share(std::unique_ptr<PeerBuffers> peers) { peers_ = std::move(peers); }
  // As PeerBuffers::asks().
  bool asksPeers(bool only_moves) { return peers_ && peers_->asks(only_moves); }
  // The exchange of offers: `gather` runs an all-gather among the ranks. `may_write`: offers outputs, too.
  using Gather = std::function<Status(const Call&)>;
  Result<ReachableBuffers> askPeers(const Call& call, int ranks, bool may_write, const Gather& gather);
  // After the call, as PeerBuffers::learn().
  void learn(bool served, int64_t asked_ns, int64_t carried_ns) {
    peers_->learn(served, asked_ns, carried_ns);
  }
  // After a failed call that let peers write into this output: redirects their late writes elsewhere.
  void cutOff(std::byte* output, size_t bytes);
  // Threads of this process that read each other's buffers.
  BufferUsers& users() { return *users_; }

 private:
  const Parts parts_;
  const std::shared_ptr<BufferUsers> users_;
  Registrations registrations_;
  LentBuffers lent_;
  std::unique_ptr<SegmentList::Watcher> freed_segments_;  // notifies the connector; null: not needed
  std::unique_ptr<PeerBuffers> peers_;                    // null where no memory is shared
};

// Whether the call reduces nothing, and all of its buffers are in host memory.
bool onlyMoves(const Call& call);
// Bytes of a rank's blocks in the set, in a call of this many ranks.
size_t bytesIn(ChunkSet set, const CallSpec& spec, int ranks);

}  // namespace horing
