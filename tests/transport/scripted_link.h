#pragma once
// A link whose peer is the test: it receives what the test says, and the test sees what is posted.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/check.h"
#include "idle_link.h"

namespace horing::testing {

class ScriptedLink final : public IdleLink {
 public:
  using Posted = std::function<void(Tag tag, std::span<const std::byte> data)>;
  // `posted` hears of every message that is sent; messages have at most `slot_bytes`.
  ScriptedLink(uint32_t slot_bytes, Posted posted) : slot_(slot_bytes), posted_(std::move(posted)) {}

  // A message of the peer.
  void say(Tag tag, std::span<const std::byte> data) { said_.push_back({tag, {data.begin(), data.end()}}); }
  template <typename Enum, typename Struct>
  void say(Enum tag, const Struct& data) {
    say(static_cast<Tag>(tag), std::as_bytes(std::span(&data, 1)));
  }
  // From here on there is no room for messages.
  bool full = false;

  Sender& sender(int) override { return sender_; }
  Receiver& receiver(int) override { return receiver_; }

 private:
  struct Said {
    Tag tag;
    std::vector<std::byte> data;
  };
  struct SendingEnd final : IdleSender {
    explicit SendingEnd(ScriptedLink& owner) : link(owner) {}
    std::byte* tryAcquire(uint32_t) override { return link.full ? nullptr : link.slot_.data(); }
    void post(uint32_t bytes, Tag tag) override {
      HORING_CHECK_LE(bytes, link.slot_.size());
      link.posted_(tag, std::span(link.slot_).first(bytes));
    }
    ScriptedLink& link;
  };
  struct ReceivingEnd final : IdleReceiver {
    explicit ReceivingEnd(ScriptedLink& owner) : link(owner) {}
    const Message* tryPeek() override {
      if (link.said_.empty()) return nullptr;
      const Said& oldest = link.said_.front();
      message = {oldest.data.data(), static_cast<uint32_t>(oldest.data.size()), oldest.tag};
      return &message;
    }
    bool hasMessage() const override { return !link.said_.empty(); }
    void release() override { link.said_.pop_front(); }
    ScriptedLink& link;
    Message message{};
  };

  std::vector<std::byte> slot_;
  Posted posted_;
  std::deque<Said> said_;
  SendingEnd sender_{*this};
  ReceivingEnd receiver_{*this};
};

}  // namespace horing::testing
