#include "engine/cuda/queue.h"

namespace horing::cuda {

namespace {

// Bytes at the receiver without slots: a counter and labels.
size_t headBytes(const QueueShape& shape) {
  return kQueueCounterBytes + (shape.slots * sizeof(SlotLabel) + 255) / 256 * 256;
}

Queue layQueue(const QueueShape& shape, std::byte* receivers, std::byte* slots, std::byte* senders) {
  Port end;
  end.slots = slots;
  end.labels = reinterpret_cast<SlotLabel*>(receivers + kQueueCounterBytes);
  end.slot_count = shape.slots;
  end.slot_bytes = shape.slot_bytes;
  Queue queue{end, end};
  queue.send.mine = reinterpret_cast<uint64_t*>(receivers);
  queue.send.theirs = reinterpret_cast<uint64_t*>(senders);
  queue.receive.mine = reinterpret_cast<uint64_t*>(senders);
  queue.receive.theirs = reinterpret_cast<uint64_t*>(receivers);
  return queue;
}

}  // namespace

size_t queueBytes(const QueueShape& shape) {
  return headBytes(shape) + shape.slotsBytes();
}

Queue layQueue(const QueueShape& shape, std::byte* receivers, std::byte* senders) {
  return layQueue(shape, receivers, receivers + headBytes(shape), senders);
}

Result<Queue> makeQueue(const QueueShape& shape, Memory& sender, Memory& receiver) {
  HORING_ASSIGN(std::byte* const receivers, receiver.allocate(queueBytes(shape)));
  HORING_ASSIGN(std::byte* const senders, sender.allocate(kQueueCounterBytes));
  return layQueue(shape, receivers, senders);
}

Result<Queue> makeQueue(const QueueShape& shape, std::byte* slots, Memory& rest) {
  HORING_ASSIGN(std::byte* const receivers, rest.allocate(headBytes(shape)));
  HORING_ASSIGN(std::byte* const senders, rest.allocate(kQueueCounterBytes));
  return layQueue(shape, receivers, slots, senders);
}

}  // namespace horing::cuda
