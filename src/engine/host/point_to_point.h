#pragma once
// Messages between pairs of ranks: the sends and receives of one group, all concurrently.
//
// Between two ranks, the first send meets the first receive, the second the second, and so on, over all groups since the
// communicator was made; nothing else is agreed on. So there is no schedule: each pair has a queue of messages, cut into slots, and
// no pair waits for another.
//
// Tagged messages are in the same queues, each behind a header with its tag and size. They may be added while others are in
// progress; each call of them has a ticket. So are puts and signals, whose headers name a place in a window of the receiver.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/message_recorder.h"
#include "base/status.h"
#include "engine/host/driven.h"
#include "engine/host/inbox.h"
#include "engine/host/memory_copier.h"
#include "engine/host/send_end.h"
#include "engine/host/signals.h"
#include "engine/host/transfer.h"
#include "engine/host/windows.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"
#include "transport/transport.h"

namespace horing {

// The messages of a group from the rank to itself: each send with the receive that it meets.
struct OwnMessage {
  const Transfer* send;
  const Transfer* receive;
};
// kInvalidUsage: some do not meet.
Result<std::vector<OwnMessage>> ownMessages(int rank, std::span<const Transfer> transfers);

// Gives the connections to a peer, which have no other user.
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
  // `slot_bytes`: of every connection. `signals`: how many of each other rank are counted separately. `recorder`: of the messages; null: they
  // are not recorded.
  PointToPoint(int rank, int ranks, uint32_t slot_bytes, PeerConnections& connections, int signals = 1,
               MessageRecorder* recorder = nullptr);

  // kInvalidUsage: sends and receives to the own rank do not meet, and nothing is begun; or the error of a copier.
  Status begin(std::span<const Transfer> transfers);
  // Adds tagged messages, none of them to the own rank, as one call with this ticket. status() reports errors.
  void join(std::span<const Transfer> transfers, uint64_t ticket);
  // Returns the ticket of a completed call, each once; 0: none.
  uint64_t takeFinished();

  // From here on every poll() takes what these ranks put and signal. A put that leaves its window is an error of status().
  void listen(std::span<const int> peers);
  bool listens() const { return listens_; }
  void openWindow(uint64_t window, std::byte* memory, size_t bytes) { windows_.open(window, memory, bytes); }
  // Its memory is not written any more. kInvalidUsage, which status() keeps: a put into it is arriving.
  Status closeWindow(uint64_t window);

  bool poll() override;
  bool done() const override;
  // kInvalidUsage when a peer's message and its receive have different sizes, or its put leaves the window; or the error of a copier.
  const Status& status() const override { return status_; }
  std::optional<uint64_t> sequence() const override { return std::nullopt; }
  std::string name() const override {
    return listens_ ? "a group of messages" : "a group of sends and receives";
  }
  // Its text: "4096 of 8192 bytes from rank 3; 0 of 4096 bytes to rank 1".
  Obstacle obstacle() const override;
  PeerWaits waits() const override;
  const LaneSteps* laneSteps() const override { return nullptr; }
  Pause pause() const override;
  Covers covers() const override { return listens_ ? Covers::kArrivals : Covers::kNone; }
  bool tellsOthers() const override { return true; }
  uint32_t roundsPerLook() const override { return kRoundsPerLook; }
  void recordWaiting(int64_t since_ns) override;
  uint64_t memoryBytes() const;

 private:
  // A call of tagged messages.
  struct Ticket {
    size_t open = 0;               // messages that are not complete
    std::vector<Sender*> senders;  // of its complete messages
    uint32_t record = 0;           // of a large group
  };
  // The stages of a message, in order; each message skips those that it does not have.
  enum class Stage : uint8_t {
    kHeader,   // the tag and the size of a message with a tag; a receiver has no message until it knows them
    kLanding,  // the receiver says where the message lands
    kAnnouncement,  // a message without data, if the sender then waits for the landing
    kData,
  };
  // The messages of this group in one direction between this rank and one peer.
  struct Flow {
    int peer = 0;
    Transfer::Direction direction = Transfer::Direction::kSend;
    // The sender or the receiver; null while the link is not up.
    SendEnd send;
    Receiver* receiver = nullptr;
    LandingReceiver* landings = nullptr;  // of the receiver; null where it has none
    LentReceiver* lent = nullptr;         // likewise
    std::vector<Transfer> transfers;
    size_t current = 0;
    Stage stage = Stage::kHeader;  // of the current message: earlier stages are complete
    size_t offset = 0;             // completed bytes of the current message
    // For transfers with a copier.
    int number = -1;    // among the flows with such transfers
    size_t copied = 0;  // copied bytes of the current slot
    bool awaits_copies = false;
    bool isUp() const { return send || receiver; }
    bool finished() const { return current == transfers.size(); }
    bool awaitsPeer() const { return !finished() && !awaits_copies; }
  };

  std::vector<int32_t> peersOf(Transfer::Direction direction) const;
  std::string describe() const;
  Status copyToSelf(std::span<const Transfer> transfers);
  void add(const Transfer& transfer);
  void receiveWithTag(const Transfer& receive);
  // Of messages that are all recorded: message_records.cpp.
  bool recordCall(std::span<const Transfer> transfers, uint32_t& group);
  void addRecorded(Transfer transfer);
  void endGroupRecord() {
    if (group_record_ != 0) [[unlikely]]
      recorder_->end(std::exchange(group_record_, 0));
  }
  // Puts, signals and waits for them: puts.cpp.
  void addPut(const Transfer& transfer, const Transfer::Put& put);
  void awaitSignals(const Transfer& transfer, const Transfer::SignalWait& wait);
  bool trySendPutHeader(const Flow& flow, const Transfer::Put& put);
  bool tryReceivePut(Flow& flow, const Message& header);
  Status refusePut(int from, const PutTarget& target, uint64_t bytes) const;
  Status refuseSignal(int from, uint64_t signal) const;
  void noteSignal(int from, uint32_t signal);
  void noteServed(int from, uint32_t signal);
  Flow& flowOf(int peer, Transfer::Direction direction);
  // The number of a message among those of its flow so far.
  uint64_t numberOf(const Flow& flow, size_t place) const {
    return (sends(flow) ? sent_ : received_)[static_cast<size_t>(flow.peer)] + (place - flow.current);
  }
  // Nothing is left to do for it, even after an event of its peer.
  bool isIdle(const Flow& flow) const {
    return flow.finished() && (sends(flow) || !(listens_ || inbox_.awaits(flow.peer)));
  }
  // Something waits for the next message, so that it is an error if none can come.
  bool awaitsHeader(const Flow& flow) const { return inbox_.awaits(flow.peer) || signals_.awaits(flow.peer); }
  bool advance(Flow& flow);
  bool sends(const Flow& flow) const { return flow.direction == Transfer::Direction::kSend; }
  bool settle();
  // False: the link is not up.
  bool bind(Flow& flow);
  // Makes progress in the stage of the current message.
  bool tryStage(Flow& flow);
  Stage stageOf(const Flow& flow) const;
  bool isPlain(const Flow& flow) const;
  bool lands(const Flow& flow) const;
  bool postHeader(const Flow& flow, std::span<const std::byte> header, uint64_t mark);
  bool trySendHeader(const Flow& flow);
  bool tryReceiveHeader(Flow& flow);
  bool tryTellLanding(const Flow& flow);
  bool tryAnnounce(const Flow& flow);
  bool tryHearAnnouncement(const Flow& flow);
  bool trySend(Flow& flow);
  bool tryReceive(Flow& flow);
  // The message that has arrived, if it is the one that the flow expects.
  const Message* tryPeek(const Flow& flow, size_t bytes);
  Tag tagOf(const Flow& flow) const;
  void beginCopies();
  bool copy(Flow& flow, std::byte* to, const std::byte* from, size_t bytes);
  bool settleCopies(Flow& flow);
  void fail(const Flow& flow, const Status& copied);
  void passOn(Flow& flow, size_t bytes);
  // `sender`: of the message; null: it was received.
  void noteComplete(Sender* sender, const Transfer& transfer);
  void rejectMessage(const Flow& flow, const Message& message);

  int rank_;
  uint32_t slot_bytes_;
  PeerConnections& connections_;
  // Messages so far, by peer: both ends count the same.
  std::vector<uint64_t> sent_, received_;
  std::vector<Flow> flows_;
  Inbox inbox_;
  Windows windows_;
  Signals signals_;
  bool listens_ = false;
  std::map<uint64_t, Ticket> tickets_;
  std::vector<uint64_t> completed_;     // completed calls whose tickets were not taken yet
  std::vector<MemoryCopier*> copiers_;  // of this group's transfers, each once
  size_t open_ = 0;                     // messages that are not complete
  MessageRecorder* recorder_;
  bool records_all_;           // else only those that wait
  uint32_t group_record_ = 0;  // of a large group without a ticket
  bool settled_ = true;
  Status status_;
};

}  // namespace horing
