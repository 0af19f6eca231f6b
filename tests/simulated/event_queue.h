#pragma once
// Virtual time: what happens next, and when. Time only moves when an event is taken.
#include <cstdint>
#include <queue>
#include <vector>

#include "base/clock.h"

namespace horing::simulated {

enum class EventKind : uint8_t {
  kPoll,          // a rank turns its crank; subject: the rank
  kPiece,         // bytes of a message arrive; subject: the connection
  kCredit,        // a released slot comes back to the sender; subject: the connection
  kSenderGone,    // the receiver learns that nothing more arrives; subject: the connection
  kReceiverGone,  // the sender learns that no slot becomes free again; subject: the connection
  kLost,          // a rank learns that one of its links broke; subject: the rank
  kMadeAgain,     // a broken connection continues; subject: the connection
};

struct Event {
  int64_t at_ns = 0;
  uint64_t order = 0;  // of events at one time
  EventKind kind = EventKind::kPoll;
  uint32_t subject = 0;
  uint32_t bytes = 0;   // kPiece
  bool last = false;    // kPiece: completes its message
  int64_t left_ns = 0;  // when it left its rank: lost if the rank was gone by then
  uint32_t life = 0;    // kPiece, kCredit: of the connection, see Connection::breakOff
  int32_t peer = -1;    // kLost: at the other end of the link
};

class EventQueue {
 public:
  const Clock& clock() const { return clock_; }
  int64_t nowNs() const { return clock_.nowNs(); }
  bool empty() const { return events_.empty(); }
  uint64_t taken() const { return taken_; }
  // Of all events that were taken, in their order.
  uint64_t fingerprint() const { return fingerprint_; }

  // Not before now.
  void add(Event event) {
    event.order = added_++;
    events_.push(event);
  }
  // The earliest event; the clock then shows its time.
  Event take() {
    const Event event = events_.top();
    events_.pop();
    clock_.advanceNs(event.at_ns - clock_.nowNs());
    ++taken_;
    fingerprint_ = (fingerprint_ ^ static_cast<uint64_t>(event.at_ns) ^ event.subject) * 0x9e3779b97f4a7c15;
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
    }
  };
  ManualClock clock_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  uint64_t fingerprint_ = 0;
  uint64_t added_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace horing::simulated
