#include "engine/cuda/queue.h"

namespace horing::cuda {

size_t queueBytes(const QueueShape& shape) {
  const size_t labels = (shape.slots * sizeof(SlotLabel) + 255) / 256 * 256;
  return kQueueCounterBytes + labels + static_cast<size_t>(shape.slots) * shape.slot_bytes;
}

Queue layQueue(const QueueShape& shape, std::byte* receivers, std::byte* senders) {
  const size_t slots_bytes = static_cast<size_t>(shape.slots) * shape.slot_bytes;
  Port end;
  end.slots = receivers + queueBytes(shape) - slots_bytes;
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

Result<Queue> makeQueue(const QueueShape& shape, Memory& sender, Memory& receiver) {
  HORING_ASSIGN(std::byte* const receivers, receiver.allocate(queueBytes(shape)));
  HORING_ASSIGN(std::byte* const senders, sender.allocate(kQueueCounterBytes));
  return layQueue(shape, receivers, senders);
}

}  // namespace horing::cuda
