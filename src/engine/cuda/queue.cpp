#include "engine/cuda/queue.h"

namespace horing::cuda {

namespace {

constexpr size_t kCounterBytes = 256;  // a line of its own, for both ends poll

}  // namespace

size_t queueBytes(const QueueShape& shape) {
  const size_t labels = (shape.slots * sizeof(SlotLabel) + 255) / 256 * 256;
  return kCounterBytes + labels + static_cast<size_t>(shape.slots) * shape.slot_bytes;
}

Result<Queue> makeQueue(const QueueShape& shape, Memory& sender, Memory& receiver) {
  HORING_ASSIGN(std::byte* const near, receiver.allocate(queueBytes(shape)));
  HORING_ASSIGN(std::byte* const far, sender.allocate(kCounterBytes));
  const size_t slots_bytes = static_cast<size_t>(shape.slots) * shape.slot_bytes;
  Port end;
  end.slots = near + queueBytes(shape) - slots_bytes;
  end.labels = reinterpret_cast<SlotLabel*>(near + kCounterBytes);
  end.slot_count = shape.slots;
  end.slot_bytes = shape.slot_bytes;
  Queue queue{end, end};
  queue.send.mine = reinterpret_cast<uint64_t*>(near);
  queue.send.theirs = reinterpret_cast<uint64_t*>(far);
  queue.receive.mine = reinterpret_cast<uint64_t*>(far);
  queue.receive.theirs = reinterpret_cast<uint64_t*>(near);
  return queue;
}

}  // namespace horing::cuda
