#pragma once
// The windows of a communicator: memory of each rank that the other ranks put into.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "comm/guard/guard.h"
#include "comm/links/connector.h"
#include "comm/membership/membership.h"
#include "comm/messages/window_handles.h"
#include "comm/progress/progress.h"
#include "comm/reach/reach.h"
#include "engine/host/point_to_point.h"

namespace horing {

// Used by one thread at a time, which enters the guard, except functions marked "Any thread".
class RegisteredWindows {
 public:
  // All must outlive it.
  struct Parts {
    const Membership& membership;
    Guard& guard;
    Connector& connector;
    Reach& reach;
    Progress& progress;
    PointToPoint& messages;  // that are messages with tags, puts and signals
    const Clock& clock;
    const std::atomic<int64_t>& timeout_ms;  // of an operation
    std::function<void()> links_made;        // called inside, when there are new links
  };
  explicit RegisteredWindows(Parts parts) : parts_(std::move(parts)) {}

  // Lets the other ranks put into this memory of the host; null: memory that they cannot put into. Returns the handle of a window, null if
  // they cannot put into the memory of some rank. Collective, as Communicator::allGather(). Errors stick.
  Result<void*> open(std::byte* memory, size_t bytes);
  // Ends a window here: takes the puts that have arrived, then the memory is written no more. Not collective. kInvalidUsage, which sticks:
  // a put into it is arriving.
  Status close(const void* handle);
  // Any thread.
  Result<std::shared_ptr<const Window>> find(const void* handle) const { return handles_.find(handle); }
  // Any thread: there are kMaxWindows.
  bool isFull() const { return handles_.isFull(); }

 private:
  // The sizes of the window on all ranks.
  Result<std::vector<uint64_t>> agree(const Window& window, size_t bytes);
  // Connects to all ranks, and takes their puts from here on.
  Status listen(const Window& window);
  Status stopPuts(const Window& window);

  const Parts parts_;
  WindowHandles handles_;
  uint64_t last_ = 0;  // number of a window
};

}  // namespace horing
