#pragma once
// Messages between pairs of ranks: the sends and receives of one group, all of them at once.
//
// Between two ranks, the first send meets the first receive, the second the second, and so on, over all groups since the
// communicator was made; nothing else is agreed on. So there is no schedule: each pair's messages are a queue of their
// own, cut into slots, and no pair waits for another.
//
// Messages with tags are in the same queues, each behind a header that has its tag and size. Those may be added while others are
// under way, and each call of them is told apart by a ticket.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/host/driven.h"
#include "engine/host/inbox.h"
#include "engine/host/memory_copier.h"
#include "engine/host/transfer.h"
#include "transport/transport.h"

namespace horing {

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
  // Adds messages with tags, none of them to the own rank, to what is under way, as one call with this ticket. What is wrong is told by
  // status().
  void join(std::span<const Transfer> transfers, uint64_t ticket);
  // Takes the ticket of a call that is through, which is told once; 0: there is none.
  uint64_t takeFinished();
  bool poll() override;
  bool done() const override;
  // kInvalidUsage when a peer's message has another size than the receive that it meets; what a copier met.
  const Status& status() const override { return status_; }
  // Its text: "4096 of 8192 bytes from rank 3; 0 of 4096 bytes to rank 1".
  Obstacle obstacle() const override;
  Pause pause() const override;
  Status overdue(int64_t timeout_ms) const override;
  uint64_t memoryBytes() const;

 private:
  // A call of messages with tags.
  struct Ticket {
    size_t open = 0;               // of its messages
    std::vector<Sender*> senders;  // of those that are through
  };
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
    bool has_sent_header = false;  // of a transfer with a tag
    // Of a transfer that has a copier.
    int number = -1;    // among the flows that have such transfers
    size_t copied = 0;  // bytes of what fills the slot
    bool awaits_copies = false;
    bool finished() const { return current == transfers.size(); }
    bool awaitsPeer() const { return !finished() && !awaits_copies; }
  };

  std::vector<int32_t> peersOf(Transfer::Direction direction) const;
  std::string describe() const;
  Status copyToSelf(std::span<const Transfer> transfers);
  void add(const Transfer& transfer);
  void receiveWithTag(const Transfer& receive);
  Flow& flowOf(int peer, Transfer::Direction direction);
  // Nothing is to be done for it now or when its peer does something.
  bool isIdle(const Flow& flow) const {
    return flow.finished() && (sends(flow) || !inbox_.awaits(flow.peer));
  }
  bool advance(Flow& flow);
  bool sends(const Flow& flow) const { return flow.direction == Transfer::Direction::kSend; }
  bool settle();
  bool trySend(Flow& flow);
  bool trySendHeader(Flow& flow);
  bool tryReceiveHeader(Flow& flow);
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
  void noteThrough(const Flow& flow, const Transfer& transfer);
  void rejectMessage(const Flow& flow, const Message& message);

  int rank_;
  uint32_t slot_bytes_;
  PeerConnections& connections_;
  // Messages so far, by peer: both ends count alike.
  std::vector<uint64_t> sent_, received_;
  std::vector<Flow> flows_;
  Inbox inbox_;
  std::map<uint64_t, Ticket> tickets_;
  std::vector<uint64_t> through_;       // those without an open message, that were not taken
  std::vector<MemoryCopier*> copiers_;  // of this group's transfers, each once
  size_t open_ = 0;                     // messages that are not through
  bool settled_ = true;
  Status status_;
};

}  // namespace horing
