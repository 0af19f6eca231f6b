#pragma once
// The Link of loopback and shm: two rows of slot queues, one in each direction.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "transport/slots/slot_connection.h"
#include "transport/transport.h"

namespace horing {

// The parts of a link once both ends are ready. All must outlive the link.
struct SlotLinkParts {
  std::byte* inbound = nullptr;   // peer to this rank: `channels` queues, slotQueuePitch() apart
  std::byte* outbound = nullptr;  // this rank to peer
  bool has_holes = false;         // outbound: only headers have memory
  DoorbellButton peer_bell;
  const std::atomic<uint32_t>* peer_departed = nullptr;
};

// Bytes of one direction of a link.
inline uint64_t slotRowBytes(const LinkShape& shape) {
  return slotQueuePitch(shape) * static_cast<uint64_t>(shape.channels);
}
// Formats all queues of one direction.
void formatSlotRow(std::byte* memory, const LinkShape& shape);
// Before that, in a file with holes: gives all headers memory. False: there is no room.
bool populateSlotRowHeaders(std::byte* memory, const LinkShape& shape);

class SlotLink final : public Link {
 public:
  SlotLink(SlotLinkState state, const LinkShape& shape, std::string description)
      : state_(std::move(state)), shape_(shape), description_(std::move(description)) {}
  SlotLink(const SlotLink&) = delete;
  SlotLink& operator=(const SlotLink&) = delete;

  int peer() const override { return state_.peer(); }
  int number() const override { return state_.number(); }
  bool established() const override { return !senders_.empty(); }
  const Status& status() const override { return state_.status(); }
  bool givenUp() const override { return given_up_; }
  bool isMending() const override { return false; }
  bool hasUnderWay() const override { return false; }
  bool departed() const override { return state_.peerDeparted(); }
  Sender& sender(int channel) override {
    HORING_CHECK_LT(static_cast<size_t>(channel), senders_.size());
    return senders_[static_cast<size_t>(channel)];
  }
  Receiver& receiver(int channel) override {
    HORING_CHECK_LT(static_cast<size_t>(channel), receivers_.size());
    return receivers_[static_cast<size_t>(channel)];
  }
  // The row that this rank receives into; the other belongs to the peer.
  uint64_t memoryBytes() const override { return slotRowBytes(shape_); }
  std::string describe() const override { return description_; }

  const LinkShape& shape() const { return shape_; }
  SlotLinkState& state() { return state_; }
  // In place of establish().
  void giveUp() { given_up_ = true; }
  // Makes the connections: established() from then on. Once.
  void establish(const SlotLinkParts& parts);

 private:
  SlotLinkState state_;
  LinkShape shape_;
  std::string description_;
  bool given_up_ = false;
  std::vector<SlotSender> senders_;
  std::vector<SlotReceiver> receivers_;
};

}  // namespace horing
