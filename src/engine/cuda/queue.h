#pragma once
// A queue of slots between two lanes, of one GPU, of two that reach each other's memory, or of a GPU and its host (bridge.h):
// the same protocol as transport/slots, in memory that kernels see.
//
// The slots and the posted counter lie with the receiver, the released counter with the sender, so that each end waits on
// memory of its own. Counters only grow, from one call to the next too: nothing is reset, so a kernel may be launched again
// as it is (as a CUDA graph does).
#include "engine/cuda/device.h"
#include "engine/cuda/memory.h"

namespace horing::cuda {

// What is said of the message in a slot.
struct alignas(16) SlotLabel {
  uint64_t tag = 0;  // equal at both ends exactly if they agree on what is being done
  uint64_t bytes = 0;
};

// One end of a queue. Written by the one block that uses it, and by the host while no kernel runs.
struct alignas(16) Port {
  std::byte* slots = nullptr;        // aligned to 64 bytes
  SlotLabel* labels = nullptr;       // one per slot
  uint64_t* mine = nullptr;          // messages that this end has posted or released
  const uint64_t* theirs = nullptr;  // and the other one
  uint64_t count = 0;  // what is in *mine, but for what the copy of a kernel that runs knows better
  uint64_t seen = 0;   // what was in *theirs at the last look
  uint32_t slot = 0;   // of the next message: count % slot_count
  uint32_t slot_count = 0;
  uint32_t slot_bytes = 0;  // a multiple of 64

  HORING_DEVICE SlotLabel& label() const { return *inGlobal(labels + slot); }
  HORING_DEVICE std::byte* data() const { return slots + static_cast<size_t>(slot) * slot_bytes; }
  // Whether there is a message to receive, or a free slot to send from. Looks only where it does not know it: memory is far.
  HORING_DEVICE bool canReceive() {
    if (seen == count) seen = loadAcquire(theirs);
    return seen != count;
  }
  HORING_DEVICE bool canSend() {
    if (count - seen >= slot_count) seen = loadAcquire(theirs);
    return count - seen < slot_count;
  }
  // Posts the slot after a releaseFence() of the caller's, or releases it. A release needs no fence: what was read of the slot has
  // arrived, or nobody would have met at the barrier before it.
  HORING_DEVICE void advance() {
    pass();
    storeFenced(mine, count);
  }
  // To the next slot, of which the other end hears later.
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

// Both ends of an empty queue, to be written to where kernels find them.
struct Queue {
  Port send;
  Port receive;
};

// Bytes of a queue with its receiver, and with its sender; multiples of 256.
size_t queueBytes(const QueueShape& shape);
inline constexpr size_t kQueueCounterBytes = 256;  // a line of its own, for the sender polls it
// In zeroed memory of both, aligned to 256 bytes; each as its end finds it, or as the other does.
Queue layQueue(const QueueShape& shape, std::byte* receivers, std::byte* senders);
// Kernels at either end reach both memories.
Result<Queue> makeQueue(const QueueShape& shape, Memory& sender, Memory& receiver);
// Its slots are there, slotsBytes() in all, and the rest in that memory, whoever sends or receives.
Result<Queue> makeQueue(const QueueShape& shape, std::byte* slots, Memory& rest);

}  // namespace horing::cuda
