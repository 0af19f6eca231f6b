#pragma once
// Memory that the host's threads do not reach by themselves, such as a GPU's: who copies it for them.
#include <cstddef>

#include "base/status.h"

namespace horing {

// One thread at a time.
class MemoryCopier {
 public:
  // Which ends of a copy are such memory, or memory that the GPU, say, reaches as well; the other is the host's own, a slot for example.
  struct Ends {
    bool from_is_far = true;
    bool to_is_far = true;
  };

  virtual ~MemoryCopier() = default;
  // Complete on return. While no group is under way.
  virtual Status copy(std::byte* to, const std::byte* from, size_t bytes, Ends ends) = 0;

  // --- Messages of a group, without waiting. A flow is all messages to one peer, or all from one peer, one after the other.
  // Before the others: the group has flows 0 .. flows-1. Nothing of the group before is under way any more.
  virtual void begin(size_t flows) = 0;
  // The next bytes of a flow's message, out of such memory: how many of them were copied; 0: not now. `left` is what the message still
  // has from there on, and may be read ahead. Bytes may be left out.
  virtual Result<size_t> tryRead(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                                 size_t left) = 0;
  // The same into such memory. They were taken on return, and are there once the flow has settled.
  virtual Result<size_t> tryWrite(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                                  size_t left) = 0;
  // After the flow's last message: true once nothing of it is under way.
  virtual Result<bool> trySettle(size_t flow) = 0;
};

}  // namespace horing
