#pragma once
// Messages between pairs of ranks: the sends and receives of one group, all of them at once.
//
// Between two ranks, the first send meets the first receive, the second the second, and so on, over all groups since the
// communicator was made; nothing else is agreed on. So there is no schedule: each pair's messages are a queue of their
// own, cut into slots, and no pair waits for another.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/host/driven.h"
#include "engine/host/memory_copier.h"
#include "transport/transport.h"

namespace horing {

// One message. Buffers belong to the caller until the group is done.
struct Transfer {
  enum class Direction : uint8_t { kSend, kReceive };
  Direction direction = Direction::kSend;
  int peer = 0;                      // rank; may be the own
  const std::byte* input = nullptr;  // kSend
  std::byte* output = nullptr;       // kReceive
  size_t bytes = 0;
  bool on_gpu = false;  // in memory that only a GPU reaches
  // Of such memory, which moves in place or is copied by this; must outlive the transfer. Null: memory of the host.
  MemoryCopier* copier = nullptr;
};

// The messages that a group has from the rank to itself: each send with the receive that it meets.
struct OwnMessage {
  const Transfer* send;
  const Transfer* receive;
};
// Error: kInvalidUsage, some do not meet.
Result<std::vector<OwnMessage>> ownMessages(int rank, std::span<const Transfer> transfers);

// Gives the connections to a peer, which nothing else uses.
class PeerConnections {
 public:
  virtual ~PeerConnections() = default;
  // Null while the link is not up.
  virtual Sender* sender(int peer) = 0;
  virtual Receiver* receiver(int peer) = 0;
};

// One group at a time, one thread.
class PointToPoint final : public Driven {
 public:
  // `slot_bytes`: of every connection.
  PointToPoint(int rank, int ranks, uint32_t slot_bytes, PeerConnections& connections);

  // kInvalidUsage: sends and receives to the own rank that do not meet; nothing is begun then, nor after what a copier met.
  Status begin(std::span<const Transfer> transfers);
  bool poll() override;
  bool done() const override;
  // kInvalidUsage when a peer's message has another size than the receive that it meets; what a copier met.
  const Status& status() const override { return status_; }
  std::vector<int32_t> waitsFor() const override;
  // The same of one direction.
  std::vector<int32_t> waitsFor(Transfer::Direction direction) const;
  bool awaitsCopies() const override;
  // "4096 of 8192 bytes from rank 3; 0 of 4096 bytes to rank 1".
  std::string describeProgress() const override;
  uint64_t memoryBytes() const;

 private:
  // The messages of this group in one direction between this rank and one peer.
  struct Flow {
    int peer = 0;
    Transfer::Direction direction = Transfer::Direction::kSend;
    Sender* sender = nullptr;      // for what is sent; null while the link is not up
    Receiver* receiver = nullptr;  // for what is received
    std::vector<Transfer> transfers;
    size_t current = 0;
    size_t offset = 0;  // bytes of the current one that are done
    // Of a transfer whose receiver says where it lands: it has said so, and a sender that awaits it has said what comes.
    bool told = false;
    bool announced = false;
    // Of a transfer that has a copier.
    int number = -1;    // among the flows that have such transfers
    size_t copied = 0;  // bytes of what fills the slot
    bool awaits_copies = false;
    bool finished() const { return current == transfers.size(); }
    bool awaitsPeer() const { return !finished() && !awaits_copies; }
  };

  Status copyToSelf(std::span<const Transfer> transfers);
  Flow& flowOf(const Transfer& transfer);
  bool advance(Flow& flow);
  bool sends(const Flow& flow) const { return flow.direction == Transfer::Direction::kSend; }
  bool settle();
  bool trySend(Flow& flow);
  bool tryAnnounce(Flow& flow, Tag tag);
  // Its messages have landings, which the sender awaits: both ends say the same of it.
  static bool lands(const Flow& flow);
  static bool awaitsLandings(const Flow& flow);
  bool tryReceive(Flow& flow);
  void beginCopies();
  bool copy(Flow& flow, std::byte* to, const std::byte* from, size_t bytes);
  bool settleCopies(Flow& flow);
  void fail(const Flow& flow, const Status& copied);
  void passOn(Flow& flow, size_t bytes);
  void rejectMessage(const Flow& flow, const Message& message);

  int rank_;
  uint32_t slot_bytes_;
  PeerConnections& connections_;
  // Messages so far, by peer: both ends count alike.
  std::vector<uint64_t> sent_, received_;
  std::vector<Flow> flows_;
  std::vector<MemoryCopier*> copiers_;  // of this group's transfers, each once
  size_t flows_running_ = 0;
  bool settled_ = true;
  Status status_;
};

}  // namespace horing
