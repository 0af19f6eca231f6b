#pragma once
// Memory that others reach: what users register, what calls lend to transports, and whether ranks reach each other's buffers.
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

// One thread at a time, whoever is inside the communicator, but for what is said to be any thread's.
class Reach {
 public:
  struct Parts {
    const JobId& communicator;
    int rank;
    Connector& connector;
    SegmentList* segments;      // memory that others can map; null: there is none
    std::string ib_gpu_memory;  // the setting
    const Log& log;
    std::function<bool()> is_forked_child;  // then memory belongs to the parent
  };
  explicit Reach(Parts parts);

  // Any thread: as horingCommRegister and horingCommDeregister. Null: that gains nothing. `gpu`: whose memory it is; null: the host's.
  Result<void*> registerMemory(std::byte* memory, size_t bytes, const CudaDevice* gpu = nullptr);
  Status deregister(const void* handle);
  // Any thread: whether a transfer of a GPU's memory can do without the host's: that is registered, and lent to what reaches the peer.
  bool movesInPlace(const Transfer& transfer) const;
  // Any thread: the name of the transport to a peer; empty for this rank itself.
  const char* transportTo(int peer) const;
  // Any thread: whether this rank has the transport of that name.
  bool hasTransport(std::string_view name) const;
  // By transports that move lent memory in place, by this rank.
  DataMoved dataMoved() const { return parts_.connector.dataMoved(); }

  // What a call lends, until it has ended and all is taken back. `failed`: nothing may be read or written any more by what is under way.
  void lend(uint32_t transports, const HostOperation& operation, const Call& call);
  void lend(uint32_t transports, std::span<const Transfer> transfers);
  void takeBack(bool failed) { lent_.takeBack(failed, 0); }
  void takeBackAll() { lent_.takeBack(/*failed=*/true); }
  // For calls that have tickets.
  LentBuffers& lent() { return lent_; }

  // Ranks of a node, once they know each other, ask each other whether they reach each other's buffers. Before, and where this is never
  // called, asksPeers() says no.
  void share(std::unique_ptr<PeerBuffers> peers) { peers_ = std::move(peers); }
  // As PeerBuffers::asks().
  bool asksPeers(bool only_moves) { return peers_ && peers_->asks(only_moves); }
  // The question: `gather` carries out an all-gather among the ranks, of what it is given. `may_write`: outputs count, too.
  using Gather = std::function<Status(const Call&)>;
  Result<ReachableBuffers> askPeers(const Call& call, int ranks, bool may_write, const Gather& gather);
  // After the call, as PeerBuffers::learn().
  void learn(bool served, int64_t asked_ns, int64_t carried_ns) {
    peers_->learn(served, asked_ns, carried_ns);
  }
  // A call that let peers write into this output has failed: whatever they still write goes elsewhere.
  void cutOff(std::byte* output, size_t bytes);
  // Threads of this process that read each other's buffers.
  BufferUsers& users() { return *users_; }

 private:
  const Parts parts_;
  const std::shared_ptr<BufferUsers> users_;
  Registrations registrations_;
  LentBuffers lent_;
  std::unique_ptr<SegmentList::Watcher> freed_segments_;  // tells the connector; null: nobody need know
  std::unique_ptr<PeerBuffers> peers_;                    // null where no memory is shared
};

// Whether the call folds nothing, and all of its memory is the host's.
bool onlyMoves(const Call& call);
// Bytes of the blocks that a rank has in such a set, in a call of so many ranks.
size_t bytesIn(ChunkSet set, const CallSpec& spec, int ranks);

}  // namespace horing
