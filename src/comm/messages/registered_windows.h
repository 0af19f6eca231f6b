#pragma once
// The windows of a communicator: memory of each rank that the other ranks put into.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/membership/membership.h"
#include "comm/messages/message_parts.h"
#include "comm/messages/window_handles.h"

namespace horing {

// Used by one thread at a time, which enters the guard, except functions marked "Any thread".
class RegisteredWindows {
 public:
  // The membership must outlive it.
  RegisteredWindows(const Membership& membership, MessageParts parts)
      : membership_(membership), parts_(std::move(parts)) {}

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

  PointToPoint& puts() const { return parts_.beside.operation(); }

  const Membership& membership_;
  const MessageParts parts_;
  WindowHandles handles_;
  uint64_t last_ = 0;  // number of a window
};

}  // namespace horing
