#pragma once
// A transport in virtual time, for ranks in one thread. Every message and every credit takes a random time,
// messages arrive in pieces, connections overtake one another; none loses its own order. Memory that nobody
// may touch at the moment is filled with a pattern and looked at again later.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "dice.h"
#include "event_queue.h"
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
class Connection {
 public:
  Connection(Network& network, uint32_t id, int32_t from, int32_t to, int lane);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int32_t from() const { return from_; }
  int32_t to() const { return to_; }
  int lane() const { return lane_; }
  Sender& sender() { return sender_; }
  Receiver& receiver() { return receiver_; }

 private:
  friend class Network;
  struct SendingEnd final : Sender {
    explicit SendingEnd(Connection& c) : connection(c) {}
    std::byte* tryAcquire() override { return connection.tryAcquire(); }
    void post(uint32_t bytes, Tag tag) override { connection.post(bytes, tag); }
    bool flushed() const override;
    Connection& connection;
  };
  struct ReceivingEnd final : Receiver {
    explicit ReceivingEnd(Connection& c) : connection(c) {}
    const Message* tryPeek() override { return connection.tryPeek(); }
    void release() override { connection.release(); }
    bool flushed() const override;
    Connection& connection;
  };

  std::byte* tryAcquire();
  void post(uint32_t bytes, Tag tag);
  const Message* tryPeek();
  void release();
  void sendPieces(uint32_t bytes);
  void arrive(const Event& piece);
  // What is under way is lost, and what is posted or released waits, until the connection is made again: then both ends say what
  // they have, and go on from there.
  void breakOff();
  void makeAgain();

  Network& network_;
  uint32_t id_;
  int32_t from_, to_;
  int lane_;
  SendingEnd sender_{*this};
  ReceivingEnd receiver_{*this};
  // Both ends have slots of their own, as over a socket: [number % slots].
  std::vector<std::byte> outgoing_, wire_, incoming_;
  std::vector<Message> messages_;  // in flight or arrived, by number % slots
  bool acquired_ = false;
  uint64_t posted_ = 0, arrived_ = 0, released_ = 0, credited_ = 0;
  uint32_t arrived_bytes_ = 0;      // of message number arrived_
  int64_t message_left_ns_ = 0;     // when the last piece leaves the sender
  int64_t message_arrives_ns_ = 0;  // when it arrives
  int64_t credit_left_ns_ = 0;
  int64_t credit_arrives_ns_ = 0;
  uint32_t life_ = 0;           // how often it broke
  bool interrupted_ = false;    // broke, and will be made again
  bool broken_ = false;         // what is under way is lost
  bool sender_gone_ = false;    // as the receiver knows
  bool receiver_gone_ = false;  // as the sender knows
};

class Network {
 public:
  Network(EventQueue& events, Dice& dice, const Weather& weather, const LinkShape& shape, int32_t ranks);

  // Made when first asked for.
  Connection& connection(int32_t from, int32_t to, int lane);
  size_t connectionCount() const { return connections_.size(); }
  const Connection& connectionNumber(size_t id) const { return *connections_[id]; }
  Presence& presence(int32_t rank) { return presence_[static_cast<size_t>(rank)]; }
  uint64_t posted() const { return posted_; }
  // What should never be: memory that changed when nobody might touch it. Empty if all is well.
  const std::string& violation() const { return violation_; }

  // The rank will be polled soon.
  void wake(int32_t rank);
  void wakeAt(int32_t rank, int64_t at_ns);
  void handle(const Event& event);

  // The rank is finished, or has failed, and goes. What it has not handed over is lost; what it has arrives.
  void leave(int32_t rank);
  // The rank's process dies; its peers' links fail when they notice.
  void die(int32_t rank);
  // Both directions of the link fail, whatever is under way is lost.
  void cut(int32_t a, int32_t b);
  // They break, and are made again some time later, so that nothing is lost. Not of a rank that is gone.
  void breakOff(int32_t a, int32_t b);
  // When a rank that has nothing more to do may leave: its transport waits until what broke is made again, and has taken what is
  // to be sent again. INT64_MAX: not before the rank is woken.
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
  std::vector<Presence> presence_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::vector<uint32_t>> of_rank_;  // numbers of its connections, both directions
  uint64_t posted_ = 0;
  std::string violation_;
};

}  // namespace horing::simulated
