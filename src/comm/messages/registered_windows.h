#pragma once
// The windows of a communicator: memory of each rank that the other ranks put into.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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

  // Opens the parts of all ranks, of so many bytes, by rank, if each is in memory of a GPU; see openPartsOnGpus().
  using OpenParts = std::function<Result<PartsOnGpus>(std::span<const uint64_t> bytes)>;
  // Lets the other ranks put into this memory, of the host, or, with `open_parts`, of a GPU; null: memory that they cannot put into. Returns
  // the handle of a window, null if they cannot put into the memory of some rank, or some have it on the host and others on GPUs. Collective,
  // as Communicator::allGather(). Errors stick.
  Result<void*> open(std::byte* memory, size_t bytes, const OpenParts& open_parts = {});
  // Ends a window here: takes the puts that have arrived, then the memory is written no more. Not collective. kInvalidUsage, which sticks:
  // a put into it is arriving.
  Status close(const void* handle);
  // Any thread.
  Result<std::shared_ptr<const Window>> find(const void* handle) const { return handles_.find(handle); }
  // Any thread: those that are open.
  std::vector<const void*> handles() const { return handles_.all(); }
  // Any thread: there are kMaxWindows.
  bool isFull() const { return handles_.isFull(); }

 private:
  // Takes the first steps, after which the window has the sizes of all ranks. Whether it may become one: each rank's memory is of this kind.
  Result<bool> begin(Window& window, size_t bytes, bool on_gpu);
  // Takes a later step, for which it waits until no other thread is inside, at most the timeout of a call: else the window would stay open.
  template <typename Step>
  Result<void*> onceInside(const Step& step) const;
  // The last one. Returns the handle.
  Result<void*> complete(const Window& window);
  Result<bool> agree(Window& window, size_t bytes, bool on_gpu);
  // Takes back the first ones. Returns the sticky error if there is one.
  Result<void*> withdraw(const Window& window, Status status);
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
