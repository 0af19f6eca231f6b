#include "transport/faulty/faulty_link.h"

#include <cinttypes>

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
  // Counted until it is shown: a rank that blocked after the last hidden poll would never be woken.
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

void FaultySender::post(uint32_t bytes, Tag tag) {
  if (state_->cut()) return;  // cut since it was acquired: the message is lost
  const uint32_t one_in = state_->plan.flip_one_in;
  if (one_in > 0 && bytes > 0 && flips_.upTo(one_in - 1) == 0) {
    const uint64_t bit = flips_.upTo(uint64_t{bytes} * 8 - 1);
    acquired_[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  acquired_ = nullptr;
  delay_.rearm();
  if (fresh_slots_ > 0) --fresh_slots_;
  inner_->post(bytes, tag);
  state_->count();
}

const Message* FaultyReceiver::tryPeek() {
  if (state_->cut()) return nullptr;
  const Message* message = inner_->tryPeek();
  return message != nullptr && delay_.passed(&state_->held_back) ? message : nullptr;
}

void FaultyReceiver::release() {
  if (state_->cut()) return;
  delay_.rearm();
  inner_->release();
  state_->count();
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
