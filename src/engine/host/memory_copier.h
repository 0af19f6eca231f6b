#pragma once
// Copies memory that host threads cannot access, such as a GPU's.
#include <cstddef>

#include "base/status.h"

namespace horing {

// One thread at a time.
class MemoryCopier {
 public:
  // Which ends of a copy are in memory that the device can access. The other end is ordinary host memory, for example a slot.
  struct Ends {
    bool from_is_far = true;
    bool to_is_far = true;
  };

  virtual ~MemoryCopier() = default;
  // Complete on return. Only while no group is in progress.
  virtual Status copy(std::byte* to, const std::byte* from, size_t bytes, Ends ends) = 0;

  // --- Messages of a group, without waiting. A flow is all messages to one peer, or all from one peer, one after the other.
  // Called first: the group has flows 0 .. flows-1. Nothing of the previous group is in progress.
  virtual void begin(size_t flows) = 0;
  // Copies the next bytes of a flow's message out of such memory: returns how many; 0: not now. `left` is the rest of the message
  // from there on, and may be read ahead. Bytes may be skipped.
  virtual Result<size_t> tryRead(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                                 size_t left) = 0;
  // The same into such memory. The bytes are taken on return, and arrive by the time the flow has settled.
  virtual Result<size_t> tryWrite(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                                  size_t left) = 0;
  // After the flow's last message: true once none of it is in progress.
  virtual Result<bool> trySettle(size_t flow) = 0;
};

}  // namespace horing
