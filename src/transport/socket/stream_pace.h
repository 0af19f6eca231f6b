#pragma once
// How fast a stream moves bytes, and when it will have moved what was posted to it: so that streams over rails of different speeds take
// messages in proportion. A value without a clock or a socket.
#include <cstdint>

namespace horing::tcp {

class StreamPace {
 public:
  // What the kernel counts of a connection.
  struct Counts {
    uint64_t acknowledged = 0;  // bytes
    uint64_t busy_ns = 0;       // while there were bytes to move, and room for them at the other end
    uint64_t waiting = 0;       // bytes written and not acknowledged yet
  };

  // After a new connection, whose path may be another one.
  void reset() { *this = {}; }
  void posted(uint64_t bytes) { pending_ += static_cast<double>(bytes); }
  // Every millisecond or so while messages are posted. `queued`: bytes posted and not written yet.
  void look(uint64_t queued, const Counts& counts, int64_t now_ns);
  int64_t lookedAtNs() const { return looked_ns_; }

  // 0: not known yet.
  double nsPerByte() const { return ns_per_byte_; }
  // How long until a further message of this size would have been moved. Precondition: the pace is known.
  double finishesInNs(uint64_t bytes, int64_t now_ns) const;

 private:
  double pending_ = 0;  // at the last look, and posted since
  Counts sampled_;      // at the end of the last sample
  double ns_per_byte_ = 0;
  int64_t looked_ns_ = 0;
  int64_t moved_ns_ = 0;  // when it was last seen to have something to move
};

}  // namespace horing::tcp
