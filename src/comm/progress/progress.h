#pragma once
// Drives what a communicator has begun to its end: moves the transports, waits, and looks around for what ends it early.
#include <atomic>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "comm/guard/guard.h"
#include "comm/guard/timeline.h"
#include "comm/links/connector.h"
#include "comm/progress/message_source.h"
#include "comm/progress/tagged_exchange.h"
#include "comm/progress/waiter.h"
#include "engine/host/driven.h"

namespace horing {

// What is driven, as the watchdog knows it, over which transports and until when.
struct Drive {
  Driven& operation;
  uint64_t sequence = kExchange;  // of a collective; else it is messages
  uint32_t transports = 0;        // bits, see Connector
  Deadline deadline;
};

// One thread at a time: whoever is inside the communicator.
class Progress {
 public:
  struct Parts {
    Guard& guard;
    Control& control;
    Connector& connector;
    const Clock& clock;
    Timeline* timeline;                      // null: nobody wants one
    const std::atomic<int64_t>& timeout_ms;  // of an operation
  };
  // `tagged`: what the messages with tags are, once there are some. Errors: no descriptor left.
  static Result<std::unique_ptr<Progress>> create(const Parts& parts, const TaggedExchange::Parts& tagged,
                                                  WaitPolicy policy);

  // Polls until the operation is done. What ends it early: its own status, the transports, news, its deadline.
  Status drive(const Drive& drive);
  // Drives messages with tags alone, until none is under way or their source wants the thread back.
  Status driveMessages();
  // Any thread, once: where messages with tags come from. They go on beside other operations; it must outlive these.
  void setMessages(MessageSource& source) { messages_.store(&source, std::memory_order_release); }
  // As Guard::news(); stops to wait for a rendezvous that has closed.
  Status lookAround();
  // Between calls nobody drives the transports, and what was lost on its way is not sent again, nor a connection that broke made
  // again. So a rank that is asked because others wait looks after that.
  void driveForOthers();

  // When drive() last looked at the clock.
  int64_t* lookedNs() { return &looked_ns_; }
  const WaitPolicy& waitPolicy() const { return waiter_.policy(); }
  void setWaitPolicy(const WaitPolicy& policy) { waiter_.setPolicy(policy); }

 private:
  Progress(const Parts& parts, const TaggedExchange::Parts& tagged, Waiter waiter, int control_fd)
      : parts_(parts), tagged_parts_(tagged), waiter_(std::move(waiter)), watched_control_fd_(control_fd) {}
  // Messages with tags that this thread is to drive beside something else, or null. Opens them once there are some.
  Result<TaggedExchange*> messagesBeside();
  uint32_t transportsOf(const Drive& drive) const {
    return drive.transports | (tagged_ ? tagged_->transports() : 0);
  }
  Status checkOnIt(const Drive& drive, TaggedExchange* beside, int64_t now_ns);
  Status overdue(const Driven& operation, uint64_t sequence);
  Status sleep(Driven& operation, TaggedExchange* beside, int timeout_ms);

  const Parts parts_;
  const TaggedExchange::Parts tagged_parts_;
  Waiter waiter_;
  int watched_control_fd_;  // by the waiter; -1: no more
  std::atomic<MessageSource*> messages_{nullptr};
  std::unique_ptr<TaggedExchange> tagged_;  // of these; null before they are first seen
  int64_t looked_ns_ = 0;
};

}  // namespace horing
