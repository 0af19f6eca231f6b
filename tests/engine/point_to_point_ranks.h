#pragma once
// Ranks that exchange messages in one thread, over the loopback transport.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/host/point_to_point.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/loopback/loopback_transport.h"

namespace horing {

inline constexpr uint32_t kSlotBytes = 256, kLargeSlotBytes = 3 * kFarBytes;
inline constexpr uint32_t kSlots = 3;

inline std::vector<std::byte> pattern(size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(i * 31 + static_cast<size_t>(seed) * 7 + 1);
  return data;
}

inline Transfer sendTo(int peer, const std::vector<std::byte>& data) {
  return {.kind = Transfer::Send{data.data()}, .peer = peer, .bytes = data.size()};
}
inline Transfer receiveFrom(int peer, std::vector<std::byte>& data) {
  return {.kind = Transfer::Receive{data.data()}, .peer = peer, .bytes = data.size()};
}

class PointToPointRanks : public testing::Test {
 protected:
  void make(int ranks, uint32_t slot_bytes = kSlotBytes, const FaultPlan& faults = {}) {
    auto hub = LoopbackHub::create(ranks).take();
    for (int rank = 0; rank < ranks; ++rank)
      transports_.push_back(makeFaultyTransport(makeLoopbackTransport(hub, rank).take(), rank, faults));
    links_.resize(static_cast<size_t>(ranks * ranks));
    for (int rank = 0; rank < ranks; ++rank)
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank)
          links_[static_cast<size_t>(rank * ranks + peer)] =
              transports_[static_cast<size_t>(rank)]
                  ->connect(peer, transports_[static_cast<size_t>(peer)]->address(), {1, kSlots, slot_bytes})
                  .take();
    for (int round = 0; round < 4; ++round)
      for (auto& transport : transports_) ASSERT_TRUE(transport->progress().ok());
    for (int rank = 0; rank < ranks; ++rank) {
      connections_.push_back(std::make_unique<Connections>(*this, rank, ranks));
      recorders_.push_back(std::make_unique<MessageRecorder>(MessageRecorder::kUsualEntries, keeps_));
      engines_.push_back(std::make_unique<PointToPoint>(rank, ranks, slot_bytes, *connections_.back(), 1,
                                                        recorders_.back().get()));
    }
  }

  void clear() {
    engines_.clear();
    recorders_.clear();
    connections_.clear();
    links_.clear();
    transports_.clear();
  }

  PointToPoint& rank(int number) { return *engines_[static_cast<size_t>(number)]; }
  MessageRecorder& recorder(int number) { return *recorders_[static_cast<size_t>(number)]; }

  // Between two ranks, both ways.
  void exchange(const std::vector<size_t>& sizes) {
    for (const size_t bytes : sizes) {
      const auto a = pattern(bytes, 1), b = pattern(bytes, 2);
      std::vector<std::byte> at_0(bytes), at_1(bytes);
      ASSERT_TRUE(rank(0).begin(std::vector{sendTo(1, a), receiveFrom(1, at_0)}).ok());
      ASSERT_TRUE(rank(1).begin(std::vector{receiveFrom(0, at_1), sendTo(0, b)}).ok());
      ASSERT_TRUE(run()) << bytes << ": " << rank(0).obstacle().text;
      EXPECT_EQ(at_0, b) << bytes;
      EXPECT_EQ(at_1, a) << bytes;
    }
  }

  // Polls all ranks in turn until all are done, or none makes progress.
  bool run() {
    for (int idle = 0; idle < 20;) {
      bool progressed = false, done = true;
      for (auto& engine : engines_) {
        progressed = engine->poll() || progressed;
        done = engine->done() && done;
      }
      if (done) return true;
      idle = progressed ? 0 : idle + 1;
    }
    return false;
  }

  MessageRecorder::Keeps keeps_ = MessageRecorder::Keeps::kAll;

 private:
  struct Connections final : PeerConnections {
    Connections(PointToPointRanks& test, int rank, int ranks) : all(test), me(rank), count(ranks) {}
    Sender* sender(int peer) override { return &link(peer).sender(0); }
    Receiver* receiver(int peer) override { return &link(peer).receiver(0); }
    Link& link(int peer) { return *all.links_[static_cast<size_t>(me * count + peer)]; }
    PointToPointRanks& all;
    int me, count;
  };
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Link*> links_;
  std::vector<std::unique_ptr<Connections>> connections_;
  std::vector<std::unique_ptr<MessageRecorder>> recorders_;
  std::vector<std::unique_ptr<PointToPoint>> engines_;
};

}  // namespace horing
