#pragma once
// Connections and links that pass on what an inner link does, late, wrong, or not at all.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/transport.h"

namespace horing {

// What the connections of one faulty link share.
struct FaultyState {
  FaultPlan plan;
  int rank = 0;
  int peer = 0;
  int number = 0;
  uint64_t messages = 0;  // posted or released so far
  int held_back = 0;      // connections that hide something at the moment
  Status status;          // of the cut

  bool cut() const { return !status.ok(); }
  // Counts one message and cuts the link when it is time.
  void count();
  // A sequence of its own for every rank, peer, link, channel and direction.
  Random random(int channel, int direction) const;
};

// Hides something that is there for a number of polls.
class Delay {
 public:
  Delay(Random random, uint32_t max_polls) : random_(random), max_polls_(max_polls) {}
  // To be asked when there is something to show: true when it may be shown. `held_back` counts those that
  // hide.
  bool passed(int* held_back);
  // The next thing is another one.
  void rearm() { armed_ = false; }

 private:
  Random random_;
  uint32_t max_polls_;
  bool armed_ = false;
  bool hiding_ = false;
  uint64_t left_ = 0;
};

class FaultySender final : public Sender {
 public:
  FaultySender(Sender* inner, FaultyState* state, int channel, uint32_t slots)
      : inner_(inner),
        state_(state),
        delay_(state->random(channel, 0), state->plan.max_credit_delay_polls),
        flips_(state->random(channel, 1)),
        fresh_slots_(slots) {}

  std::byte* tryAcquire() override { return state_->cut() ? nullptr : show(inner_->tryAcquire()); }
  std::byte* tryAcquireFor(uint32_t bytes) override {
    return state_->cut() ? nullptr : show(inner_->tryAcquireFor(bytes));
  }
  void post(uint32_t bytes, Tag tag) override;
  bool flushed() const override { return state_->cut() || inner_->flushed(); }
  void roam(bool far) override { inner_->roam(far); }
  bool readerIsFar() override { return state_->plan.far_readers || inner_->readerIsFar(); }

 private:
  // What was acquired, when it is time.
  std::byte* show(std::byte* slot);

  Sender* inner_;
  FaultyState* state_;
  Delay delay_;
  Random flips_;
  uint32_t fresh_slots_;  // never used so far: no credit to be late
  std::byte* acquired_ = nullptr;
};

class FaultyReceiver final : public Receiver {
 public:
  FaultyReceiver(Receiver* inner, FaultyState* state, int channel)
      : inner_(inner), state_(state), delay_(state->random(channel, 2), state->plan.max_delay_polls) {}

  const Message* tryPeek() override;
  void release() override;
  bool flushed() const override { return state_->cut() || inner_->flushed(); }

 private:
  Receiver* inner_;
  FaultyState* state_;
  Delay delay_;
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

  // Makes the connections once the inner link has its own.
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
