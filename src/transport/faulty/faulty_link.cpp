#include "transport/faulty/faulty_link.h"

#include <cinttypes>
#include <cstring>

namespace horing {

void FaultyState::count() {
  ++messages;
  const bool chosen = plan.cut_peer < 0 || plan.cut_peer == peer;
  if (!chosen || cut() || messages < plan.cut_after_messages) return;
  status = makeStatus(Code::kRemoteError,
                      "rank %d lost rank %d: the link was cut after %" PRIu64 " messages, as planned", rank,
                      peer, messages);
}

Random FaultyState::random(int channel, int direction) const {
  Random mixed(plan.seed);
  for (const int part : {rank, peer, number, channel, direction})
    mixed = Random(mixed.next() ^ static_cast<uint64_t>(part));
  return mixed;
}

bool Delay::passed(int* held_back) {
  if (max_polls_ == 0) return true;
  if (!armed_) {
    armed_ = true;
    left_ = random_.upTo(max_polls_);
    hiding_ = left_ > 0;
    if (hiding_) ++*held_back;
  }
  if (left_ > 0) {
    --left_;
    return false;
  }
  // Counted until it is delivered: a rank that blocked after the last delayed poll would never be woken.
  if (hiding_) --*held_back;
  hiding_ = false;
  return true;
}

std::byte* FaultySender::show(std::byte* slot) {
  if (slot == nullptr) return nullptr;
  if (acquired_ == nullptr && fresh_slots_ == 0 && !delay_.passed(&state_->held_back)) return nullptr;
  acquired_ = slot;
  return slot;
}

bool FaultySender::flips(uint32_t bytes) {
  const uint32_t one_in = state_->plan.flip_one_in;
  return one_in > 0 && bytes > 0 && flips_.upTo(one_in - 1) == 0;
}

void FaultySender::flip(std::byte* data, uint32_t bytes) {
  const uint64_t bit = flips_.upTo(uint64_t{bytes} * 8 - 1);
  data[bit / 8] ^= std::byte{1} << (bit % 8);
}

void FaultySender::posted() {
  acquired_ = nullptr;
  delay_.rearm();
  if (fresh_slots_ > 0) --fresh_slots_;
  state_->count();
}

void FaultySender::post(uint32_t bytes, Tag tag) {
  if (state_->cut()) return;  // cut since it was acquired: the message is lost
  if (!slots_of_gpu_ && flips(bytes)) flip(acquired_, bytes);
  inner_->post(bytes, tag);
  posted();
}

// The caller's memory must not change: a corrupted message is sent from the slot.
void FaultySender::postFrom(const std::byte* memory, uint32_t bytes, Tag tag) {
  if (state_->cut()) return;
  if (!slots_of_gpu_ && flips(bytes)) {
    std::memcpy(acquired_, memory, bytes);
    flip(acquired_, bytes);
    inner_->post(bytes, tag);
  } else {
    lent_->postFrom(memory, bytes, tag);
  }
  posted();
}

bool FaultySender::useSlots(std::span<std::byte> memory, MemoryOf of) {
  const bool uses = callers_->useSlots(memory, of);
  slots_of_gpu_ = uses && of == MemoryOf::kGpu;
  return uses;
}

const Message* FaultyReceiver::show(uint64_t ahead, const Message* message) {
  if (!message || ahead < shown_) return message;
  if (ahead > shown_ || !delay_.passed(&state_->held_back)) return nullptr;
  delay_.rearm();
  ++shown_;
  return message;
}

void FaultyReceiver::release() {
  if (state_->cut()) return;
  --shown_;
  inner_->release();
  state_->count();
}

bool FaultyReceiver::tryLand(const Landing& landing) {
  if (state_->cut()) return true;
  if (!landing_delay_.passed(&state_->held_back) || !landings_->tryLand(landing)) return false;
  landing_delay_.rearm();
  return true;
}

void FaultyLink::settle() {
  if (established() || !inner_->established()) return;
  senders_.reserve(static_cast<size_t>(shape_.channels));
  receivers_.reserve(static_cast<size_t>(shape_.channels));
  for (int channel = 0; channel < shape_.channels; ++channel) {
    senders_.emplace_back(&inner_->sender(channel), &state_, channel, shape_.slots);
    receivers_.emplace_back(&inner_->receiver(channel), &state_, channel);
  }
}

}  // namespace horing
