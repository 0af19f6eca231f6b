#pragma once
// Connections and links that forward an inner link's messages late, corrupted, or not at all.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "transport/callers_slots.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"
#include "transport/shared_slots.h"
#include "transport/transport.h"

namespace horing {

// Shared by the connections of one faulty link.
struct FaultyState {
  FaultPlan plan;
  int rank = 0;
  int peer = 0;
  int number = 0;
  uint64_t messages = 0;  // posted or released so far
  int held_back = 0;      // connections that delay something now
  Status status;          // the error of the cut

  bool cut() const { return !status.ok(); }
  // Counts one message and cuts the link when it is time.
  void count();
  // A separate sequence for every rank, peer, link, channel and direction.
  Random random(int channel, int direction) const;
};

// Delays an available item for a number of polls.
class Delay {
 public:
  Delay(Random random, uint32_t max_polls) : random_(random), max_polls_(max_polls) {}
  // Call when an item is available: true when it may be delivered. `held_back` counts connections that delay an item.
  bool passed(int* held_back);
  // The next item is a new one.
  void rearm() { armed_ = false; }

 private:
  Random random_;
  uint32_t max_polls_;
  bool armed_ = false;
  bool hiding_ = false;
  uint64_t left_ = 0;
};

// Has the capabilities of `inner`, and also of shared slots if readers shall appear far.
class FaultySender final : public Sender,
                           public LandingSender,
                           public LentSender,
                           public CallersSlotsSender,
                           public SharedSlotsSender {
 public:
  FaultySender(Sender* inner, FaultyState* state, int channel, uint32_t slots)
      : inner_(inner),
        landings_(inner->landings()),
        lent_(inner->lent()),
        callers_(inner->callersSlots()),
        shared_(inner->sharedSlots()),
        state_(state),
        delay_(state->random(channel, 0), state->plan.max_credit_delay_polls),
        flips_(state->random(channel, 1)),
        fresh_slots_(slots) {}

  std::byte* tryAcquire(uint32_t bytes) override {
    return state_->cut() ? nullptr : show(inner_->tryAcquire(bytes));
  }
  void post(uint32_t bytes, Tag tag) override;
  bool flushed() const override { return state_->cut() || inner_->flushed(); }

  LandingSender* landings() override { return landings_ ? this : nullptr; }
  LentSender* lent() override { return lent_ ? this : nullptr; }
  CallersSlotsSender* callersSlots() override { return callers_ ? this : nullptr; }
  SharedSlotsSender* sharedSlots() override { return shared_ || state_->plan.far_readers ? this : nullptr; }

  std::byte* tryAcquireLanding() override {
    return state_->cut() ? nullptr : show(landings_->tryAcquireLanding());
  }
  bool awaitsLandings() const override { return landings_->awaitsLandings(); }
  bool sendsFrom(const std::byte* memory, uint32_t bytes) const override {
    return lent_->sendsFrom(memory, bytes);
  }
  void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) override;
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override;
  uint64_t acknowledged() const override { return callers_->acknowledged(); }
  void roam(bool all) override {
    if (shared_) shared_->roam(all);
  }
  bool readerIsFar() override { return state_->plan.far_readers || shared_->readerIsFar(); }

 private:
  // Returns the acquired slot once its delay has passed.
  std::byte* show(std::byte* slot);
  // Whether a bit of this message is to be flipped.
  bool flips(uint32_t bytes);
  void flip(std::byte* data, uint32_t bytes);
  void posted();

  Sender* inner_;
  LandingSender* landings_;
  LentSender* lent_;
  CallersSlotsSender* callers_;
  SharedSlotsSender* shared_;
  FaultyState* state_;
  Delay delay_;
  Random flips_;
  uint32_t fresh_slots_;       // never used so far, so without a credit to delay
  bool slots_of_gpu_ = false;  // in which bits cannot be flipped
  std::byte* acquired_ = nullptr;
};

class FaultyReceiver final : public Receiver,
                             public LandingReceiver,
                             public LentReceiver,
                             public CallersSlotsReceiver {
 public:
  FaultyReceiver(Receiver* inner, FaultyState* state, int channel)
      : inner_(inner),
        landings_(inner->landings()),
        lent_(inner->lent()),
        callers_(inner->callersSlots()),
        state_(state),
        delay_(state->random(channel, 2), state->plan.max_delay_polls),
        landing_delay_(state->random(channel, 3), state->plan.max_landing_delay_polls) {}

  const Message* tryPeek() override { return show(0, state_->cut() ? nullptr : inner_->tryPeek()); }
  bool hasMessage() const override { return !state_->cut() && inner_->hasMessage(); }
  void release() override;
  bool flushed() const override { return state_->cut() || inner_->flushed(); }

  LandingReceiver* landings() override { return landings_ ? this : nullptr; }
  LentReceiver* lent() override { return lent_ ? this : nullptr; }
  CallersSlotsReceiver* callersSlots() override { return callers_ ? this : nullptr; }

  bool tryLand(const Landing& landing) override;
  bool awaitsLandings() const override { return landings_->awaitsLandings(); }
  bool settle() override { return state_->cut() || lent_->settle(); }
  bool useSlots(std::span<std::byte> memory, MemoryOf of) override { return callers_->useSlots(memory, of); }
  const Message* tryPeekAhead(uint64_t ahead) override {
    return show(ahead, state_->cut() ? nullptr : callers_->tryPeekAhead(ahead));
  }

 private:
  // Returns the message, `ahead` places behind the oldest, once its delay has passed.
  const Message* show(uint64_t ahead, const Message* message);

  Receiver* inner_;
  LandingReceiver* landings_;
  LentReceiver* lent_;
  CallersSlotsReceiver* callers_;
  FaultyState* state_;
  Delay delay_;
  Delay landing_delay_;
  uint64_t shown_ = 0;  // messages delivered and not released
};

class FaultyLink final : public Link {
 public:
  FaultyLink(Link* inner, const FaultyState& state, const LinkShape& shape)
      : inner_(inner), state_(state), shape_(shape) {}
  FaultyLink(const FaultyLink&) = delete;
  FaultyLink& operator=(const FaultyLink&) = delete;

  int peer() const override { return inner_->peer(); }
  int number() const override { return inner_->number(); }
  bool established() const override { return !senders_.empty(); }
  const Status& status() const override { return state_.cut() ? state_.status : inner_->status(); }
  bool givenUp() const override { return inner_->givenUp(); }
  bool isMending() const override { return !state_.cut() && inner_->isMending(); }
  bool hasUnderWay() const override { return inner_->hasUnderWay(); }
  bool departed() const override { return !state_.cut() && inner_->departed(); }
  Sender& sender(int channel) override {
    HORING_CHECK_LT(static_cast<size_t>(channel), senders_.size());
    return senders_[static_cast<size_t>(channel)];
  }
  Receiver& receiver(int channel) override {
    HORING_CHECK_LT(static_cast<size_t>(channel), receivers_.size());
    return receivers_[static_cast<size_t>(channel)];
  }
  uint64_t memoryBytes() const override { return inner_->memoryBytes(); }
  std::string describe() const override { return "faulty " + inner_->describe(); }

  // Makes the connections once the inner link is established.
  void settle();
  const FaultyState& state() const { return state_; }

 private:
  Link* inner_;
  FaultyState state_;
  LinkShape shape_;
  std::vector<FaultySender> senders_;
  std::vector<FaultyReceiver> receivers_;
};

}  // namespace horing
