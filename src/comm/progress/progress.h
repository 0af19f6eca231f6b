#pragma once
// The progress loop: drives an operation to completion, moves the transports, waits, and checks for events that end it early.
#include <atomic>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "comm/guard/guard.h"
#include "comm/guard/timeline.h"
#include "comm/links/connector.h"
#include "comm/progress/background.h"
#include "comm/progress/waiter.h"
#include "engine/host/driven.h"

namespace horing {

// What to drive, and how long.
struct Drive {
  Driven& operation;
  uint32_t transports = 0;  // bits, see Connector
  Deadline deadline;
  int64_t timeout_ms = 0;  // how long after the operation's begin that is; 0: as Progress::Parts says
};

// One thread at a time: the one inside the communicator.
class Progress {
 public:
  struct Parts {
    Guard& guard;
    Connector& connector;
    const Clock& clock;
    Timeline* timeline;                      // null: no timeline
    const std::atomic<int64_t>& timeout_ms;  // of an operation
  };
  // `beside`: what messages beside operations need, once there are some.
  Progress(const Parts& parts, const ExchangeBeside::Parts& beside, WaitPolicy policy);

  // Polls until the operation is done. What ends it early: its own status, the transports, news, its deadline.
  Status drive(const Drive& drive);
  // Drives messages beside operations alone, until none is under way or their source wants the thread back.
  Status driveBeside();
  // Any thread, once: sets the source of messages that progress beside operations.
  void setMessages(MessageSource& source) { background_.setSource(source); }
  // Before it goes, when no message of it is left.
  void dropMessages() { background_.dropSource(); }
  // As Guard::news().
  Status lookAround();
  // One round of the same, for that thread while it waits for a device. Ends them as drive() does.
  Status serveBeside();
  // Whether this is the thread that drives messages beside operations.
  bool isThreadOfMessages() const { return background_.isThreadOfMessages(); }
  // Between calls no thread drives the transports, so lost messages are not sent again and broken connections are not
  // re-established, nor are puts taken. A rank that is asked because other ranks wait does that here, for about 1 ms at most. True: puts
  // were arriving.
  bool driveForOthers();

  // When drive() last looked at the clock.
  int64_t* lookedNs() { return &looked_ns_; }
  const WaitPolicy& waitPolicy() const { return waiter_.policy(); }
  void setWaitPolicy(const WaitPolicy& policy) { waiter_.setPolicy(policy); }

 private:
  void looked(int64_t now_ns);
  Status checkOnIt(const Drive& drive, int64_t now_ns);
  void tellOfLackOfRoom(int64_t idle_ns);
  Status checkOnMessages(int64_t since_ns);
  PeerWaits waitsOf(const Driven& operation) const;
  void countWaits(const PeerWaits& waits, int64_t now_ns);
  Obstacle obstacleOf(const Driven& operation, int64_t now_ns);
  // `since_ns`: since when nothing has moved.
  Status overdue(Driven& operation, int64_t since_ns, int64_t timeout_ms);
  // As Driven::recordWaiting(), also of the messages beside it.
  void recordWaiting(Driven& operation, int64_t since_ns);
  // As Driven::poll(), shown in the timeline.
  bool poll(Driven& operation);
  Status sleep(const Drive& drive, std::chrono::microseconds timeout);

  const Parts parts_;
  Waiter waiter_;
  Background background_;
  std::vector<size_t> transport_places_;  // in the waiter, by transport
  int64_t looked_ns_ = 0;
  int64_t counted_ns_ = 0;  // until when waits are counted
  int64_t mended_ns_ = 0;   // when a link was last seen being re-established
  int64_t served_ns_ =
      0;  // when serveBeside() last moved anything, or began to; 0: drive() has been here since
  int64_t next_service_look_ns_ = 0;
};

}  // namespace horing
