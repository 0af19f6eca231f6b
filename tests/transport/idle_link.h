#pragma once
// A link that is up and on which nothing happens. A test or a benchmark derives from it what it needs.
#include <string>

#include "transport/transport.h"

namespace horing::testing {

class IdleSender : public Sender {
 public:
  std::byte* tryAcquire(uint32_t) override { return nullptr; }
  void post(uint32_t, Tag) override {}
  bool flushed() const override { return true; }
  LandingSender* landings() override { return nullptr; }
  LentSender* lent() override { return nullptr; }
  CallersSlotsSender* callersSlots() override { return nullptr; }
  SharedSlotsSender* sharedSlots() override { return nullptr; }
};

class IdleReceiver : public Receiver {
 public:
  const Message* tryPeek() override { return nullptr; }
  bool hasMessage() const override { return false; }
  void release() override {}
  bool flushed() const override { return true; }
  LandingReceiver* landings() override { return nullptr; }
  LentReceiver* lent() override { return nullptr; }
  CallersSlotsReceiver* callersSlots() override { return nullptr; }
};

class IdleLink : public Link {
 public:
  explicit IdleLink(int peer = 1, int number = 0) : peer_(peer), number_(number) {}
  int peer() const override { return peer_; }
  int number() const override { return number_; }
  bool established() const override { return true; }
  const Status& status() const override { return status_; }
  bool givenUp() const override { return false; }
  bool isMending() const override { return false; }
  bool hasUnderWay() const override { return false; }
  bool departed() const override { return false; }
  Sender& sender(int) override { return sender_; }
  Receiver& receiver(int) override { return receiver_; }
  uint64_t memoryBytes() const override { return 0; }
  std::string describe() const override { return "idle"; }

 private:
  int peer_;
  int number_;
  Status status_;
  IdleSender sender_;
  IdleReceiver receiver_;
};

}  // namespace horing::testing
