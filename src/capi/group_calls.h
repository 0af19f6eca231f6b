#pragma once
// The calls of a group: which become one, and where the others stand.
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "capi/handle.h"

namespace horing {

// A call between horingGroupStart and horingGroupEnd.
struct Pending {
  horingComm_t comm;
  uint64_t generation;  // of the handle
  Command command;
  std::vector<horingStream_t> streams;  // several only for an exchange
};

// Whether the command uses streams that are not the library's: CUDA streams.
bool isForCuda(const Command& command, horingStream_t stream);
inline bool isForCuda(const Pending& pending) {
  return isForCuda(pending.command, pending.streams.front());
}
// Whether the queue enters a stream for the command (CommandQueue::enterStream). `is_for_cuda`: as isForCuda() says.
bool entersStream(const Command& command, bool is_for_cuda);
// Whether the command has no stream and must be complete on return.
inline bool isBlocking(const Pending& pending) {
  return pending.streams.size() == 1 && !pending.streams.front();
}

// The sends and receives of one communicator become one exchange, on all their streams, so that all progress at once. On every rank it
// comes after the communicator's collectives; the exchange of messages with tags, which have separate links, comes last of these. One-sided
// operations become exchanges, too, in their places.
Result<std::vector<Pending>> mergeTransfers(std::vector<Pending> commands);

// Processes agree on kernels, and launch them, for one communicator at a time: sorts communicators into the same order on every rank,
// whatever the order of the calls. Operations of one communicator keep their order.
void orderLaunches(std::vector<Pending>& commands);

// One-sided operations on streams of CUDA, where each is a mark behind the one before it of its communicator, whatever the streams of both.
// What precedes the first wait comes before all other calls of the group, or behind them all, if one of them comes first on its stream; the
// first wait and what follows come behind them all.
class OneSidedOnCuda {
 public:
  // Takes them out of the calls of a group. kInvalidUsage: they cannot all be in their places.
  Status takeFrom(std::vector<Pending>& calls);
  // Before any call of the group is enqueued: enters the streams of these and of the others. kInvalidUsage: one of them cannot serve its rank;
  // then nothing may be enqueued.
  Status enterStreams(std::vector<Pending>& others);
  // Before the other calls, and behind them.
  Status enqueueEarly() { return enqueue(early_); }
  Status enqueueLate() { return enqueue(late_); }
  // Some of them; empty only if there are none.
  const std::vector<Pending>& some() const { return early_.empty() ? late_ : early_; }

 private:
  struct Last {
    StreamMark mark;
    horingStream_t stream;
  };
  // Another call on a stream of CUDA.
  struct Other {
    size_t at;  // in the group
    horingStream_t stream;
    bool is_exchange;
  };
  Result<bool> comesLate(size_t at, const Pending& call, const std::vector<Other>& others);
  Status enqueue(std::vector<Pending>& calls);

  std::vector<Pending> early_, late_;
  std::set<horingComm_t> have_waits_, come_late_;
  std::map<horingComm_t, Last> last_;
};

}  // namespace horing
