#pragma once
// All ranks of a collective in one thread, over the loopback transport: the engine is poll-driven, so a test
// can turn the crank itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/catalogue.h"
#include "engine/host/operation.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/loopback/loopback_transport.h"

namespace horing {

struct WorldOptions {
  std::string algorithm = "ring";
  Collective collective = Collective::kAllReduce;
  Shape shape;
  int32_t root = 0;  // position
  int32_t window = 4;
  uint32_t slots = 5;
  uint32_t slot_bytes = 65536;
  Simd simd = Simd::kPlain;
  size_t stream_bytes = SIZE_MAX;
  bool far_readers = false;               // sent values go past the caches
  std::vector<int32_t> rank_of_position;  // empty: position = rank
  // Not over loopback but over these, one for each rank; they must outlive the world.
  std::vector<Transport*> transports{};
};

class World final {
 public:
  explicit World(WorldOptions options) : options_(std::move(options)), ranks_(options_.shape.ranks()) {
    if (options_.rank_of_position.empty())
      for (int32_t rank = 0; rank < ranks_; ++rank) options_.rank_of_position.push_back(rank);
    if (options_.transports.empty()) {
      auto hub = LoopbackHub::create(ranks_);
      EXPECT_TRUE(hub.ok()) << hub.status().toString();
      for (int rank = 0; rank < ranks_; ++rank) {
        loopback_.push_back(makeLoopbackTransport(hub.value(), rank).take());
        if (options_.far_readers)
          loopback_.back() = makeFaultyTransport(std::move(loopback_.back()), rank, {.far_readers = true});
        options_.transports.push_back(loopback_.back().get());
      }
    }
    connect();
    for (int32_t position = 0; position < ranks_; ++position) {
      auto schedule =
          buildSchedule(options_.algorithm, options_.collective, options_.shape, position, options_.root);
      EXPECT_TRUE(schedule.ok()) << schedule.status().toString();
      Connections connections{*this, rankOf(position)};
      const PlanSettings settings{options_.window, options_.slot_bytes, options_.simd, options_.stream_bytes};
      plans_.push_back(std::make_unique<Plan>(schedule.take(), settings, connections));
      operations_.push_back(
          std::make_unique<HostOperation>(*plans_.back(), options_.rank_of_position.data()));
    }
  }

  int32_t ranks() const { return ranks_; }
  int32_t rankOf(int32_t position) const { return options_.rank_of_position[static_cast<size_t>(position)]; }
  HostOperation& operation(int32_t position) { return *operations_[static_cast<size_t>(position)]; }

  // One call per position; polls all ranks in turn until all are done, or none makes progress.
  bool run(std::vector<Call> calls) {
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const Call& call : calls) inputs.push_back(call.input);
    for (const Call& call : calls) outputs.push_back(call.output);
    for (Call& call : calls)
      if (!call.reader) call.peer_inputs = inputs.data();
    for (Call& call : calls) call.peer_outputs = outputs.data();
    for (Call& call : calls) call.collective = options_.collective;
    for (size_t p = 0; p < calls.size(); ++p) operations_[p]->begin(calls[p], /*sequence=*/0);
    for (int idle = 0; idle < kIdleRounds;) {
      bool progressed = false, done = true;
      for (Transport* transport : options_.transports)
        if (!transport->progress().ok()) return false;
      for (auto& operation : operations_) {
        progressed = operation->poll() || progressed;
        done = operation->done() && done;
      }
      if (done) return true;
      idle = progressed ? 0 : idle + 1;
    }
    return false;
  }

 private:
  // In which nothing moves: some transports return credits only after a while.
  static constexpr int kIdleRounds = 200;

  struct Connections final : ConnectionSource {
    Connections(World& w, int32_t me) : world(w), rank(me) {}
    Sender& sender(int32_t position, int channel) override {
      return world.link(rank, world.rankOf(position)).sender(channel);
    }
    Receiver& receiver(int32_t position, int channel) override {
      return world.link(rank, world.rankOf(position)).receiver(channel);
    }
    int32_t rankOf(int32_t position) const override { return world.rankOf(position); }
    World& world;
    int32_t rank;
  };

  Link& link(int32_t rank, int32_t peer) { return *links_[static_cast<size_t>(rank * ranks_ + peer)]; }

  void connect() {
    links_.resize(static_cast<size_t>(ranks_ * ranks_));
    const LinkShape shape{kLinkChannels, options_.slots, options_.slot_bytes};
    for (int rank = 0; rank < ranks_; ++rank)
      for (int peer = 0; peer < ranks_; ++peer)
        if (peer != rank)
          links_[static_cast<size_t>(rank * ranks_ + peer)] =
              options_.transports[static_cast<size_t>(rank)]
                  ->connect(peer, options_.transports[static_cast<size_t>(peer)]->address(), shape)
                  .take();
    const auto all_up = [&] {
      return std::all_of(links_.begin(), links_.end(),
                         [](const Link* link) { return !link || link->established(); });
    };
    for (int round = 0; round < kIdleRounds && !all_up(); ++round)
      for (Transport* transport : options_.transports) EXPECT_TRUE(transport->progress().ok());
    EXPECT_TRUE(all_up());
  }

  WorldOptions options_;
  int32_t ranks_;
  std::vector<std::unique_ptr<Transport>> loopback_;
  std::vector<Link*> links_;  // [rank * ranks + peer]
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<std::unique_ptr<HostOperation>> operations_;
};

}  // namespace horing
