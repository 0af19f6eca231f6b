#pragma once
// A queue of slots between two lanes on one GPU, on two GPUs with peer access, or between a GPU and its host (bridge.h): the protocol of
// transport/slots, in memory that kernels can access.
//
// The slots and the posted counter are in the receiver's memory, the released counter in the sender's, so that each end polls local memory.
// Counters are monotonic over all calls: nothing is reset, so a kernel may be launched again unchanged (as a CUDA graph does).
#include "engine/cuda/device.h"
#include "engine/cuda/memory.h"

namespace horing::cuda {

// The header of the message in a slot.
struct alignas(16) SlotLabel {
  uint64_t tag = 0;  // equal at both ends exactly if they agree on the operation
  uint64_t bytes = 0;
};

// One end of a queue. Written by the one block that uses it, and by the host while no kernel runs.
struct alignas(16) Port {
  std::byte* slots = nullptr;        // aligned to 64 bytes
  SlotLabel* labels = nullptr;       // one per slot
  uint64_t* mine = nullptr;          // messages that this end has posted or released
  const uint64_t* theirs = nullptr;  // and the other end
  uint64_t count = 0;                // the value of *mine; a running kernel's copy is newer
  uint64_t seen = 0;                 // the value of *theirs at the last read
  uint32_t slot = 0;                 // of the next message: count % slot_count
  uint32_t slot_count = 0;
  uint32_t slot_bytes = 0;  // a multiple of 64

  HORING_DEVICE SlotLabel& label() const { return *inGlobal(labels + slot); }
  HORING_DEVICE std::byte* data() const { return slots + static_cast<size_t>(slot) * slot_bytes; }
  // Whether there is a message to receive, or a free slot to send from. Reads the counter only if the cached value does not suffice: memory
  // is slow.
  HORING_DEVICE bool canReceive() {
    if (seen == count) seen = loadAcquire(theirs);
    return seen != count;
  }
  HORING_DEVICE bool canSend() {
    if (count - seen >= slot_count) seen = loadAcquire(theirs);
    return count - seen < slot_count;
  }
  // Posts the slot after the caller's releaseFence(), or releases it. A release needs no fence: all reads of the slot completed before the
  // preceding barrier.
  HORING_DEVICE void advance() {
    pass();
    storeFenced(mine, count);
  }
  // Moves to the next slot, without publishing it yet.
  HORING_DEVICE void pass() {
    ++count;
    if (++slot == slot_count) slot = 0;
  }
};
struct QueueShape {
  uint32_t slots = 5;           // window + 1 or more
  uint32_t slot_bytes = 65536;  // a multiple of 64

  size_t slotsBytes() const { return static_cast<size_t>(slots) * slot_bytes; }
};

// Both ends of an empty queue, to be copied to GPU memory.
struct Queue {
  Port send;
  Port receive;
};

// Bytes of a queue in the receiver's memory, and in the sender's; multiples of 256.
size_t queueBytes(const QueueShape& shape);
inline constexpr size_t kQueueCounterBytes = 256;  // a separate cache line, since the sender polls it
// Lays out a queue in zeroed memory of both ends, aligned to 256 bytes.
Queue layQueue(const QueueShape& shape, std::byte* receivers, std::byte* senders);
// Kernels at both ends must be able to access both memories.
Result<Queue> makeQueue(const QueueShape& shape, Memory& sender, Memory& receiver);
// A queue with its slots, slotsBytes() in all, at `slots`, and everything else in `rest`.
Result<Queue> makeQueue(const QueueShape& shape, std::byte* slots, Memory& rest);

}  // namespace horing::cuda
