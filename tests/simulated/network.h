#pragma once
// A transport in virtual time, for ranks in one thread. Every message and every credit takes a random time, messages arrive in
// pieces, connections overtake one another, and none loses its own order. Memory that may not be accessed at the moment is filled
// with a pattern and checked later.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "dice.h"
#include "event_queue.h"
#include "transport/landings.h"
#include "transport/transport.h"

namespace horing::simulated {

// How long things take. A value.
struct Weather {
  int64_t latency_ns = 1000;  // of every message
  int64_t jitter_ns = 0;      // at most, on top
  int spike_percent = 0;      // of messages that take kSpike times as long
  int pieces = 1;             // of a message, at most
  int64_t handover_ns = 0;    // at most, until what a rank posts or releases has left it
  int64_t poll_ns = 100;      // at most, between two polls of a rank
  static constexpr int64_t kSpike = 50;
};

// What the network knows of a rank.
struct Presence {
  Status status;                // the first error of its links
  int64_t gone_ns = INT64_MAX;  // when it died or left
  int64_t handed_over_ns = 0;   // when all that it posted and released so far will have left it
  bool poll_due = false;        // a kPoll event is under way
};

class Network;

// One direction of (link, lane).
//
// As over RDMA, senders may await landings: the receiver tells them in words, which are messages of another connection, and a
// message with a landing arrives there instead of in a slot.
class Connection {
 public:
  // Lanes of data are below it. Words about the landings of lane l are on lane kWords + l, the other way.
  static constexpr int kWords = 1000;
  Connection(Network& network, uint32_t id, int32_t from, int32_t to, int lane, const LinkShape& shape);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int32_t from() const { return from_; }
  int32_t to() const { return to_; }
  int lane() const { return lane_; }
  Sender& sender() { return sender_; }
  Receiver& receiver() { return receiver_; }

 private:
  friend class Network;
  struct SendingEnd final : Sender, LandingSender {
    explicit SendingEnd(Connection& c) : connection(c) {}
    std::byte* tryAcquire(uint32_t) override { return connection.tryAcquire(); }
    void post(uint32_t bytes, Tag tag) override { connection.post(bytes, tag); }
    bool flushed() const override;
    std::byte* tryAcquireLanding() override { return connection.tryAcquireLanding(); }
    bool awaitsLandings() const override { return true; }
    LandingSender* landings() override { return connection.words_ ? this : nullptr; }
    LentSender* lent() override { return nullptr; }
    CallersSlotsSender* callersSlots() override { return nullptr; }
    SharedSlotsSender* sharedSlots() override { return nullptr; }
    Connection& connection;
  };
  struct ReceivingEnd final : Receiver, LandingReceiver {
    explicit ReceivingEnd(Connection& c) : connection(c) {}
    const Message* tryPeek() override { return connection.tryPeek(); }
    bool hasMessage() const override { return connection.arrived_ > connection.released_; }
    void release() override { connection.release(); }
    bool flushed() const override;
    bool tryLand(const Landing& landing) override { return connection.tryLand(landing); }
    bool awaitsLandings() const override { return true; }
    LandingReceiver* landings() override { return connection.words_ ? this : nullptr; }
    LentReceiver* lent() override { return nullptr; }
    CallersSlotsReceiver* callersSlots() override { return nullptr; }
    Connection& connection;
  };

  // The messages in flight or in a slot.
  struct Posted {
    Message message;
    bool has_landing = false;
    bool landed = false;  // and that is in memory
  };

  std::byte* tryAcquire();
  std::byte* tryAcquireLanding();
  bool tryLand(const Landing& landing);
  // Where the next message that has a landing arrives; null: in a slot.
  std::byte* takeLanding(uint32_t bytes);
  Posted& posted(uint64_t number) { return messages_[number % shape_.slots]; }
  size_t slotOf(uint64_t number) const { return number % shape_.slots * shape_.slot_bytes; }
  void post(uint32_t bytes, Tag tag);
  const Message* tryPeek();
  void release();
  void sendPieces(uint32_t bytes);
  void arrive(const Event& piece);
  // Messages in flight are lost, and posts and releases wait, until the connection is made again: then both ends report their
  // state, and continue from there.
  void breakOff();
  void makeAgain();

  Network& network_;
  uint32_t id_;
  int32_t from_, to_;
  int lane_;
  LinkShape shape_;
  Connection* words_ = nullptr;  // for messages with landings; null: no sender awaits any
  SendingEnd sender_{*this};
  ReceivingEnd receiver_{*this};
  // Both ends have slots, as over a socket: [number % slots].
  std::vector<std::byte> outgoing_, wire_, incoming_;
  std::vector<Posted> messages_;  // by number % slots
  bool acquired_ = false;
  bool acquired_landing_ = false;
  uint32_t landings_taken_ = 0;  // of the oldest word
  std::deque<Landing> told_;     // and not used up by messages that were released
  uint32_t landings_used_ = 0;   // of the first landing
  uint64_t posted_ = 0, arrived_ = 0, released_ = 0, credited_ = 0;
  uint32_t arrived_bytes_ = 0;      // of message number arrived_
  int64_t message_left_ns_ = 0;     // when the last piece leaves the sender
  int64_t message_arrives_ns_ = 0;  // when it arrives
  int64_t credit_left_ns_ = 0;
  int64_t credit_arrives_ns_ = 0;
  uint32_t life_ = 0;           // how often it broke
  bool interrupted_ = false;    // broke, and will be made again
  bool broken_ = false;         // messages in flight are lost
  bool sender_gone_ = false;    // as the receiver knows
  bool receiver_gone_ = false;  // as the sender knows
};

class Network {
 public:
  // `landings`: how many a receiver may tell before their messages are begun; 0: no sender awaits any.
  Network(EventQueue& events, Dice& dice, const Weather& weather, const LinkShape& shape, uint32_t landings,
          int32_t ranks);

  // Made when first asked for.
  Connection& connection(int32_t from, int32_t to, int lane);
  size_t connectionCount() const { return connections_.size(); }
  const Connection& connectionNumber(size_t id) const { return *connections_[id]; }
  Presence& presence(int32_t rank) { return presence_[static_cast<size_t>(rank)]; }
  uint64_t posted() const { return posted_; }
  // An invariant violation: memory that changed while it might not be accessed. Empty: none.
  const std::string& violation() const { return violation_; }

  // The rank will be polled soon.
  void wake(int32_t rank);
  void wakeAt(int32_t rank, int64_t at_ns);
  void handle(const Event& event);

  // The rank has finished, or failed, and leaves. Messages that it has not posted are lost; its posted ones arrive.
  void leave(int32_t rank);
  // The rank's process dies; its peers' links fail when they notice.
  void die(int32_t rank);
  // Both directions of the link fail, whatever is under way is lost.
  void cut(int32_t a, int32_t b);
  // They break, and are made again some time later, so that nothing is lost. Not of a rank that is gone.
  void breakOff(int32_t a, int32_t b);
  // When a finished rank may leave: its transport waits until broken connections are made again and have taken the messages to send
  // again. INT64_MAX: not before the rank is woken.
  int64_t mayLeaveNs(int32_t rank) const;

 private:
  friend class Connection;
  int64_t travelNs();
  int64_t handoverNs() { return weather_.handover_ns ? dice_.between(0, weather_.handover_ns) : 0; }
  void noticeLater(int32_t rank, int32_t peer);
  void fail(int32_t rank, int32_t peer, const char* cause);
  void violate(const Connection& connection, const char* what);

  EventQueue& events_;
  Dice& dice_;
  Weather weather_;
  LinkShape shape_;
  uint32_t landings_;
  std::vector<Presence> presence_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::vector<uint32_t>> of_rank_;  // numbers of its connections, both directions
  uint64_t posted_ = 0;
  std::string violation_;
};

}  // namespace horing::simulated
