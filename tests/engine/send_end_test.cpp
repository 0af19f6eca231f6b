// How a piece of a message is sent, depending on the sender's capabilities and on the memory of the piece.
#include "engine/host/send_end.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

namespace horing {
namespace {

// Records its calls. Lends `lent_`, and has the capabilities that the test sets.
class RecordingSender final : public Sender,
                              public LandingSender,
                              public LentSender,
                              public SharedSlotsSender {
 public:
  std::byte* tryAcquire(uint32_t bytes) override {
    asked_ += "slot " + std::to_string(bytes) + "; ";
    return is_full ? nullptr : slot.data();
  }
  std::byte* tryAcquireLanding() override {
    asked_ += "landing; ";
    return is_full ? nullptr : landing.data();
  }
  bool awaitsLandings() const override { return false; }
  bool sendsFrom(const std::byte* memory, uint32_t) const override { return memory == lent_memory.data(); }
  void post(uint32_t bytes, Tag tag) override { record("post", bytes, tag); }
  void postFrom(const std::byte* memory, uint32_t bytes, Tag tag) override {
    EXPECT_EQ(memory, lent_memory.data());
    record("post lent", bytes, tag);
  }
  bool flushed() const override { return true; }
  void roam(bool) override {}
  bool readerIsFar() override {
    asked_ += "far; ";
    return true;
  }
  LandingSender* landings() override { return has_all ? this : nullptr; }
  LentSender* lent() override { return has_all ? this : nullptr; }
  CallersSlotsSender* callersSlots() override { return nullptr; }
  SharedSlotsSender* sharedSlots() override { return has_all ? this : nullptr; }

  // Since the last time.
  std::string asked() { return std::exchange(asked_, {}); }

  bool has_all = true;
  bool is_full = false;
  std::array<std::byte, 64> slot{}, landing{}, lent_memory{}, other{};

 private:
  void record(const char* what, uint32_t bytes, Tag tag) {
    asked_ += std::string(what) + " " + std::to_string(bytes) + " #" + std::to_string(tag) + "; ";
  }
  std::string asked_;
};

TEST(SendEnd, SendsASlot) {
  RecordingSender sender;
  for (const bool has_all : {false, true}) {
    sender.has_all = has_all;
    const SendEnd end(sender);
    std::byte* const none = nullptr;
    for (std::byte* const value : {none, sender.other.data()}) {
      const SendEnd::Piece piece = end.tryAcquire(64, false, value);
      EXPECT_EQ(piece.room, sender.slot.data());
      end.post(piece, 64, 5);
      EXPECT_EQ(sender.asked(), "slot 64; post 64 #5; ");
    }
  }
}

TEST(SendEnd, SendsWhatLands) {
  RecordingSender sender;
  const SendEnd end(sender);
  const SendEnd::Piece piece = end.tryAcquire(64, true, nullptr);
  EXPECT_EQ(piece.room, sender.landing.data());
  end.post(piece, 64, 5);
  EXPECT_EQ(sender.asked(), "landing; post 64 #5; ");
}

// It takes the place of a slot, or of a landing.
TEST(SendEnd, SendsLentMemoryWhereItIs) {
  RecordingSender sender;
  const SendEnd end(sender);
  for (const bool lands : {false, true}) {
    const SendEnd::Piece piece = end.tryAcquire(64, lands, sender.lent_memory.data());
    EXPECT_TRUE(piece);
    EXPECT_FALSE(piece.room);
    end.post(piece, 64, 5);
    EXPECT_EQ(sender.asked(), std::string(lands ? "landing; " : "slot 64; ") + "post lent 64 #5; ");
  }
  sender.has_all = false;
  EXPECT_EQ(SendEnd(sender).tryAcquire(64, false, sender.lent_memory.data()).room, sender.slot.data());
}

TEST(SendEnd, HasNoPieceWithoutRoom) {
  RecordingSender sender;
  sender.is_full = true;
  const SendEnd end(sender);
  for (const bool lands : {false, true}) EXPECT_FALSE(end.tryAcquire(64, lands, sender.lent_memory.data()));
}

// Senders time messages only for callers that ask.
TEST(SendEnd, AsksForTheDistanceOfLongPiecesOnly) {
  RecordingSender sender;
  EXPECT_FALSE(SendEnd(sender).readerIsFar(kFarBytes - 1));
  EXPECT_EQ(sender.asked(), "");
  EXPECT_TRUE(SendEnd(sender).readerIsFar(kFarBytes));
  EXPECT_EQ(sender.asked(), "far; ");
  sender.has_all = false;
  EXPECT_FALSE(SendEnd(sender).readerIsFar(kFarBytes));
}

}  // namespace
}  // namespace horing
