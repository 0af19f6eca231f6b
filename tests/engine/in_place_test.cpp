// Collectives and messages from and into lent memory, over RDMA devices in memory and over TCP: results are correct, and nothing is
// copied, except TCP messages that arrive before their landing is told.
#include <gtest/gtest.h>

#include <cstring>

#include "../transport/verbs_fake.h"
#include "engine/host/point_to_point.h"
#include "transport/lent_memory.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/verbs_transport.h"
#include "world.h"

namespace horing {
namespace {

using testing::FakeDevice;
using testing::FakeVerbs;

constexpr int kRanks = 4;
constexpr size_t kWords = kInPlaceBytes / sizeof(uint32_t) * 5 + 3;  // of a block

enum class Network : uint8_t { kVerbs, kSocket };
struct Case {
  const char* algorithm = "";
  Shape shape;
  Network network = Network::kVerbs;
};
void PrintTo(const Case& which, std::ostream* out) {
  *out << which.algorithm << (which.network == Network::kVerbs ? " over RDMA" : " over TCP");
}

// Over RDMA, every rank has a device on each of two wires.
class EngineInPlace : public ::testing::TestWithParam<Case> {
 protected:
  bool overTcp() const { return GetParam().network == Network::kSocket; }
  Result<std::unique_ptr<Transport>> makeTransport(int rank, const std::shared_ptr<LoopbackHub>& hub) {
    if (overTcp())
      return makeSocketTransport({.rank = rank, .key = key_, .interfaces = "=lo", .clock = &clock_});
    VerbsOptions options{.rank = rank, .devices = "r" + std::to_string(rank)};
    options.library = &verbs_.library();
    options.clock = &clock_;
    options.log = Log(LogLevel::kNone);
    return makeVerbsTransport(options, makeLoopbackTransport(hub, rank).take());
  }
  void SetUp() override {
    const auto hub = LoopbackHub::create(kRanks);
    ASSERT_TRUE(hub.ok());
    for (int rank = 0; rank < kRanks; ++rank) {
      auto made = makeTransport(rank, hub.value());
      ASSERT_TRUE(made.ok()) << made.status().toString();
      transports_.push_back(made.take());
      ins_.emplace_back(kWords * kRanks);
      outs_.emplace_back(kWords * kRanks);
    }
  }
  static std::vector<FakeDevice> devices() {
    std::vector<FakeDevice> all;
    for (int rank = 0; rank < kRanks; ++rank)
      for (int wire = 0; wire < 2; ++wire)
        all.push_back({.name = "r" + std::to_string(rank) + std::to_string(wire),
                       .wire = wire,
                       .gid = testing::fakeGid(wire, rank + 1)});
    return all;
  }
  World worldOf(const char* algorithm, Collective collective, const Shape& shape) {
    WorldOptions options{.algorithm = algorithm, .collective = collective, .shape = shape, .slots = 8};
    for (const auto& transport : transports_) options.transports.push_back(transport.get());
    return World(std::move(options));
  }
  void lend() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      transports_[rank]->regions()->lend(regionOf(2 * rank + 1, ins_[rank]));
      transports_[rank]->regions()->lend(regionOf(2 * rank + 2, outs_[rank]));
    }
  }
  static Region regionOf(uint64_t id, std::vector<uint32_t>& memory) {
    return {id, reinterpret_cast<std::byte*>(memory.data()), memory.size() * sizeof(uint32_t)};
  }
  static uint32_t word(size_t rank, size_t index) {
    return static_cast<uint32_t>(rank * 1'000'003 + index * 2'654'435'761);
  }
  void fill() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < ins_[rank].size(); ++i) ins_[rank][i] = word(rank, i);
      outs_[rank].assign(outs_[rank].size(), 0);
    }
  }
  enum class Place { kApart, kSame };
  // `input_step`: words from one rank's part of its input to the next's.
  std::vector<Call> calls(Place place = Place::kApart, size_t input_step = 0) {
    std::vector<Call> all;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      Call call;
      auto& output = place == Place::kSame ? ins_[rank] : outs_[rank];
      call.input = reinterpret_cast<const std::byte*>(ins_[rank].data() + rank * input_step);
      call.output = reinterpret_cast<std::byte*>(output.data());
      call.count = kWords;
      call.type = DataType::kUint32;
      all.push_back(call);
    }
    return all;
  }
  DataMoved moved() {
    DataMoved all;
    for (const auto& transport : transports_) all += transport->regions()->dataMoved();
    return all;
  }
  void expectNothingThroughSlots() {
    const DataMoved data = moved();
    EXPECT_GT(data.sent_in_place, kWords * sizeof(uint32_t));
    EXPECT_EQ(data.sent_through_slots, 0u);
    if (overTcp()) {
      EXPECT_GT(data.received_in_place, data.received_through_slots);
    } else {
      EXPECT_EQ(data.received_in_place, data.sent_in_place);
      EXPECT_EQ(data.received_through_slots, 0u);
    }
  }
  void expectGathered(const std::vector<std::vector<uint32_t>>& outputs, size_t input_step = 0) {
    for (size_t rank = 0; rank < kRanks; ++rank)
      for (size_t i = 0; i < kWords * kRanks; ++i) {
        const size_t from = i / kWords;
        ASSERT_EQ(outputs[rank][i], word(from, from * input_step + i % kWords))
            << "rank " << rank << ", " << i;
      }
  }

  SteadyClock clock_;
  Key key_ = Key::random();
  FakeVerbs verbs_{devices()};
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::vector<uint32_t>> ins_, outs_;
};

// Two ranks send each other messages.
class MessagesInPlace : public EngineInPlace, public PeerConnections {
 protected:
  void SetUp() override {
    EngineInPlace::SetUp();
    const LinkShape shape{.channels = 1, .slots = 8, .slot_bytes = 65536};
    for (int rank = 0; rank < 2; ++rank) {
      auto& mine = *transports_[static_cast<size_t>(rank)];
      auto made = mine.connect(1 - rank, transports_[static_cast<size_t>(1 - rank)]->address(), shape);
      ASSERT_TRUE(made.ok()) << made.status().toString();
      links_[rank] = made.value();
      ends_[rank] = std::make_unique<PointToPoint>(rank, 2, shape.slot_bytes, *this);
    }
    fill();
  }
  // To the other one: that is all that there is.
  Sender* sender(int peer) override { return up(1 - peer) ? &links_[1 - peer]->sender(0) : nullptr; }
  Receiver* receiver(int peer) override { return up(1 - peer) ? &links_[1 - peer]->receiver(0) : nullptr; }
  bool up(int rank) const { return links_[rank]->established(); }

  Transfer send(int from, size_t bytes) {
    return {.kind = Transfer::Send{reinterpret_cast<std::byte*>(ins_[static_cast<size_t>(from)].data())},
            .peer = 1 - from,
            .bytes = bytes};
  }
  Transfer receive(int at, size_t bytes) {
    return {.kind = Transfer::Receive{reinterpret_cast<std::byte*>(outs_[static_cast<size_t>(at)].data())},
            .peer = 1 - at,
            .bytes = bytes};
  }
  // False when an end reports an error.
  bool exchange(const std::vector<Transfer>& first, const std::vector<Transfer>& second) {
    EXPECT_TRUE(ends_[0]->begin(first).ok() && ends_[1]->begin(second).ok());
    const Deadline deadline = Deadline::after(clock_, 20'000);
    while (!ends_[0]->done() || !ends_[1]->done()) {
      for (int rank = 0; rank < 2; ++rank) {
        if (!transports_[static_cast<size_t>(rank)]->progress().ok() || !ends_[rank]->status().ok())
          return false;
        ends_[rank]->poll();
      }
      if (deadline.passed())
        return ADD_FAILURE() << ends_[0]->obstacle().text << ends_[1]->obstacle().text, false;
    }
    return true;
  }

  Link* links_[2] = {};
  std::unique_ptr<PointToPoint> ends_[2];
};

const Case kNetworks[] = {{}, {.shape = {}, .network = Network::kSocket}};
INSTANTIATE_TEST_SUITE_P(Networks, MessagesInPlace, ::testing::ValuesIn(kNetworks));

TEST_P(MessagesInPlace, AreNotCopied) {
  lend();
  const size_t bytes = kWords * 3 * sizeof(uint32_t);
  ASSERT_TRUE(
      exchange({send(0, bytes), receive(0, kInPlaceBytes)}, {receive(1, bytes), send(1, kInPlaceBytes)}));
  expectNothingThroughSlots();
  EXPECT_EQ(std::memcmp(outs_[1].data(), ins_[0].data(), bytes), 0);
  EXPECT_EQ(std::memcmp(outs_[0].data(), ins_[1].data(), kInPlaceBytes), 0);
}

TEST_P(MessagesInPlace, LargeAndSmallOnesKeepTheirOrder) {
  lend();
  for (const size_t bytes : {size_t{0}, kInPlaceBytes - 1, kInPlaceBytes + 1, size_t{8}, kInPlaceBytes * 9}) {
    ASSERT_TRUE(exchange({send(0, bytes), send(0, 4)}, {receive(1, bytes), receive(1, 4)})) << bytes;
    EXPECT_EQ(std::memcmp(outs_[1].data(), ins_[0].data(), bytes), 0) << bytes;
  }
}

TEST_P(MessagesInPlace, WhoeverExpectsAnotherSizeHearsOfIt) {
  lend();
  EXPECT_FALSE(exchange({send(0, kInPlaceBytes * 2)}, {receive(1, 100)}));
  EXPECT_NE(ends_[1]->status().message().find("100 bytes"), std::string::npos)
      << ends_[1]->status().toString();
}

TEST_P(MessagesInPlace, AlsoWhoeverExpectsMore) {
  lend();
  EXPECT_FALSE(exchange({send(0, 100)}, {receive(1, kInPlaceBytes * 2)}));
  EXPECT_EQ(ends_[1]->status().code(), Code::kInvalidUsage) << ends_[1]->status().toString();
}

class AllGathersInPlace : public EngineInPlace {};
const Case kSymmetric[] = {{"ring", {1, kRanks}},
                           {"direct", {1, kRanks}},
                           {"ho_ring", {2, 2}},
                           {"ring", {1, kRanks}, Network::kSocket},
                           {"direct", {1, kRanks}, Network::kSocket},
                           {"ho_ring", {2, 2}, Network::kSocket}};
INSTANTIATE_TEST_SUITE_P(Algorithms, AllGathersInPlace, ::testing::ValuesIn(kSymmetric));

TEST_P(AllGathersInPlace, CopyNothing) {
  lend();
  fill();
  World world = worldOf(GetParam().algorithm, Collective::kAllGather, GetParam().shape);
  ASSERT_TRUE(world.run(calls()));
  expectGathered(outs_);
  expectNothingThroughSlots();
}

TEST_P(AllGathersInPlace, CopyNothingWhereTheInputIsPartOfTheOutput) {
  lend();
  fill();
  World world = worldOf(GetParam().algorithm, Collective::kAllGather, GetParam().shape);
  ASSERT_TRUE(world.run(calls(Place::kSame, kWords)));
  expectGathered(ins_, kWords);
  expectNothingThroughSlots();
}

TEST_P(AllGathersInPlace, ServeOrdinaryMemoryThroughSlots) {
  fill();
  World world = worldOf(GetParam().algorithm, Collective::kAllGather, GetParam().shape);
  ASSERT_TRUE(world.run(calls()));
  expectGathered(outs_);
  EXPECT_EQ(moved().sent_in_place + moved().received_in_place, 0u);
}

class AllReducesInPlace : public EngineInPlace {};
INSTANTIATE_TEST_SUITE_P(Algorithms, AllReducesInPlace, ::testing::ValuesIn(kSymmetric));

TEST_P(AllReducesInPlace, AreRightAndSendInPlace) {
  lend();
  World world = worldOf(GetParam().algorithm, Collective::kAllReduce, GetParam().shape);
  for (const Place place : {Place::kApart, Place::kSame}) {
    fill();
    auto all = calls(place);
    for (Call& call : all) call.count = kWords * kRanks;
    ASSERT_TRUE(world.run(all));
    for (size_t i = 0; i < kWords * kRanks; ++i) {
      uint32_t sum = 0;
      for (size_t rank = 0; rank < kRanks; ++rank) sum += word(rank, i);
      for (size_t rank = 0; rank < kRanks; ++rank)
        ASSERT_EQ((place == Place::kSame ? ins_ : outs_)[rank][i], sum) << "rank " << rank << ", " << i;
    }
  }
  EXPECT_GT(moved().sent_in_place, 0u);
  if (overTcp()) {
    EXPECT_GT(moved().received_in_place, 0u) << "what is only passed on";
  } else {
    EXPECT_EQ(moved().received_in_place, 0u) << "to await that would gain nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, EngineInPlace, ::testing::ValuesIn(kNetworks));

TEST_P(EngineInPlace, AllToAllsCopyNothingUnlessTheyReplaceTheirInput) {
  lend();
  World world = worldOf("pairwise", Collective::kAllToAll, {1, kRanks});
  for (const Place place : {Place::kApart, Place::kSame}) {
    // No caller may request it: lanes overwrite values that others are about to send, unless they have to wait for landings.
    if (place == Place::kSame && overTcp()) break;
    fill();
    ASSERT_TRUE(world.run(calls(place)));
    for (size_t rank = 0; rank < kRanks; ++rank)
      for (size_t i = 0; i < kWords * kRanks; ++i)
        ASSERT_EQ((place == Place::kSame ? ins_ : outs_)[rank][i],
                  word(i / kWords, rank * kWords + i % kWords))
            << "rank " << rank << ", " << i;
    if (place == Place::kApart) expectNothingThroughSlots();
  }
}

TEST_P(EngineInPlace, BroadcastsCopyNothing) {
  lend();
  fill();
  World world = worldOf("chain", Collective::kBroadcast, {1, kRanks});
  ASSERT_TRUE(world.run(calls()));
  for (size_t rank = 0; rank < kRanks; ++rank)
    for (size_t i = 0; i < kWords; ++i) ASSERT_EQ(outs_[rank][i], word(0, i)) << "rank " << rank << ", " << i;
  expectNothingThroughSlots();
}

}  // namespace
}  // namespace horing
