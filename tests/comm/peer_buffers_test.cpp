// Ranks that ask each other for the places of their inputs: all must decide alike, whatever a rank reports.
#include "comm/reach/peer_buffers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>

namespace horing {
namespace {

// Ranks, each with its own memory and view, and the messages between them.
class Ranks {
 public:
  explicit Ranks(int count, PeerBuffers::Memory memory = PeerBuffers::Memory::kOfSegments,
                 PeerBuffers::SingleCopy single_copy = PeerBuffers::SingleCopy::kNever)
      : map_(GroupMap::blocks(1, count)),
        single_copy_(single_copy),
        lists_(static_cast<size_t>(count)),
        outputs_(static_cast<size_t>(count)) {
    processes_.assign(lists_.size(), ::getpid());
    makeViews(memory);
  }
  // That rank is of another process than its memory.
  void moveAway(int rank) {
    processes_[static_cast<size_t>(rank)] = ::getppid();
    makeViews(PeerBuffers::Memory::kOfSegments);
  }
  SegmentList& list(int rank) { return lists_[static_cast<size_t>(rank)]; }
  // Changes a rank's reports in the next rounds.
  void setLie(std::function<void(int rank, std::byte* said, size_t bytes)> lie) { lie_ = std::move(lie); }

  // Of the next questions; at first their calls fold.
  void onlyMove() { only_moves_ = true; }
  // How long the next calls take a rank, by which way.
  void setTimes(std::function<int64_t(int rank, CopyWay way)> times) { times_ = std::move(times); }

  // All ranks' answers to one question, by rank; all are null, or none is.
  std::vector<const std::byte* const*> ask(const std::vector<const std::byte*>& inputs, size_t bytes) {
    confirmed_ = false;
    exchange([&](size_t rank) {
      return views_[rank]->offer({inputs[rank], bytes}, outputs_[rank], only_moves_);
    });
    size_t wanting = 0;
    for (const auto& view : views_) wanting += view->needsConfirmation();
    EXPECT_TRUE(wanting == 0 || wanting == views_.size()) << "a second round of some ranks only";
    if (wanting > 0) exchange([&](size_t rank) { return views_[rank]->confirmation(); });
    confirmed_ = wanting > 0;
    std::vector<const std::byte* const*> answers;
    found_outputs_.clear();
    readers_.clear();
    for (const auto& view : views_) {
      const auto agreed = view->agreed();
      EXPECT_TRUE(agreed.ok()) << agreed.status().toString();
      answers.push_back(agreed.ok() ? agreed.value().inputs : nullptr);
      found_outputs_.push_back(agreed.ok() ? agreed.value().outputs : nullptr);
      readers_.push_back(agreed.ok() ? agreed.value().reader : nullptr);
      EXPECT_EQ(found_outputs_.back() == nullptr, found_outputs_[0] == nullptr) << "ranks decide differently";
      EXPECT_EQ(answers.back() == nullptr, answers[0] == nullptr) << "ranks decide differently";
      EXPECT_EQ(readers_.back() == nullptr, readers_[0] == nullptr) << "ranks decide differently";
    }
    const CopyWay way = readers_[0] ? CopyWay::kKernel : CopyWay::kSlots;
    for (size_t rank = 0; rank < views_.size(); ++rank)
      views_[rank]->learn(answers[0] != nullptr, 0, times_ ? times_(static_cast<int>(rank), way) : 0);
    return answers;
  }
  bool confirmed() const { return confirmed_; }
  // By which the inputs that were found last are read; null: they are mapped.
  const std::vector<PeerReader*>& readers() const { return readers_; }
  // The reports for the next questions; none at first.
  void setOutputs(std::vector<std::span<std::byte>> outputs) { outputs_ = std::move(outputs); }
  // By rank; the outputs, by position, that it may write.
  const std::vector<std::byte* const*>& outputs() const { return found_outputs_; }
  PeerBuffers& view(int rank) { return *views_[static_cast<size_t>(rank)]; }

 private:
  void makeViews(PeerBuffers::Memory memory) {
    views_.clear();
    for (int rank = 0; rank < map_.ranks(); ++rank)
      views_.push_back(
          std::make_unique<PeerBuffers>(list(rank), map_, rank, memory, processes_, single_copy_));
  }
  void exchange(const std::function<Call(size_t)>& callOf) {
    std::vector<Call> calls;
    for (size_t rank = 0; rank < views_.size(); ++rank) calls.push_back(callOf(rank));
    for (const Call& to : calls)
      for (size_t from = 0; from < calls.size(); ++from) {
        std::byte* at = to.output + from * to.count;
        std::memcpy(at, calls[from].input, to.count);
        if (lie_) lie_(static_cast<int>(from), at, to.count);
      }
  }

  GroupMap map_;
  PeerBuffers::SingleCopy single_copy_;
  bool only_moves_ = false;
  std::function<int64_t(int, CopyWay)> times_;
  std::vector<PeerReader*> readers_;
  std::vector<SegmentList> lists_;
  std::vector<int64_t> processes_;
  std::vector<std::unique_ptr<PeerBuffers>> views_;
  std::function<void(int, std::byte*, size_t)> lie_;
  bool confirmed_ = false;
  std::vector<std::span<std::byte>> outputs_;
  std::vector<std::byte* const*> found_outputs_;
};

constexpr size_t kBytes = 10000;

std::vector<const std::byte*> allocateAll(Ranks& ranks, int count) {
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < count; ++rank) {
    std::byte* data = ranks.list(rank).allocate(2 * kBytes).take();
    data[100] = static_cast<std::byte>(rank + 1);
    inputs.push_back(data + 100);
  }
  return inputs;
}

TEST(PeerBuffers, AreFoundInTheMemoryOfTheOthers) {
  Ranks ranks(3);
  const auto inputs = allocateAll(ranks, 3);
  for (const bool is_first : {true, false}) {
    const auto answers = ranks.ask(inputs, kBytes);
    EXPECT_EQ(ranks.confirmed(), is_first) << "only what is new is confirmed";
    for (const auto& by_position : answers) {
      ASSERT_NE(by_position, nullptr);
      for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(by_position[peer][0], static_cast<std::byte>(peer + 1));
    }
  }
}

TEST(PeerBuffers, AreWrittenWhereAllOutputsAreShared) {
  Ranks ranks(2);
  auto inputs = allocateAll(ranks, 2);
  std::vector<std::span<std::byte>> outputs;
  for (const int rank : {0, 1}) outputs.emplace_back(ranks.list(rank).allocate(kBytes).take(), kBytes);
  ranks.setOutputs(outputs);
  EXPECT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  ASSERT_NE(ranks.outputs()[0], nullptr);
  ranks.outputs()[0][1][kBytes - 1] = std::byte{7};
  EXPECT_EQ(outputs[1][kBytes - 1], std::byte{7});
  EXPECT_EQ(ranks.outputs()[0][0], outputs[0].data()) << "its own";
  // Each kind for itself.
  std::vector<std::byte> ordinary(kBytes);
  inputs[0] = ordinary.data();
  EXPECT_EQ(ranks.ask(inputs, kBytes)[0], nullptr);
  EXPECT_NE(ranks.outputs()[0], nullptr);
  outputs[0] = ordinary;
  ranks.setOutputs(outputs);
  inputs = allocateAll(ranks, 2);
  EXPECT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  EXPECT_EQ(ranks.outputs()[0], nullptr);
}

TEST(PeerBuffers, OfOneProcessMayLieAnywhere) {
  Ranks ranks(2, PeerBuffers::Memory::kOfProcess);
  const std::byte mine{1}, theirs{2};
  const auto answers = ranks.ask({&mine, &theirs}, 1);
  ASSERT_NE(answers[0], nullptr);
  EXPECT_EQ(answers[0][1], &theirs);
  EXPECT_EQ(answers[1][0], &mine);
  EXPECT_FALSE(ranks.confirmed());
}

TEST(PeerBuffers, AreRefusedByAllIfOneLiesElsewhere) {
  Ranks ranks(3);
  auto inputs = allocateAll(ranks, 3);
  const std::vector<std::byte> ordinary(kBytes);
  inputs[1] = ordinary.data();
  EXPECT_EQ(ranks.ask(inputs, kBytes)[0], nullptr);
  EXPECT_FALSE(ranks.confirmed());
  inputs[1] = ranks.list(1).allocate(kBytes).take();
  EXPECT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  EXPECT_EQ(ranks.ask(inputs, 2 * kBytes)[0], nullptr) << "reaches beyond the segment";
}

TEST(PeerBuffers, AreRefusedByAllIfOneCannotMap) {
  Ranks ranks(3);
  const auto inputs = allocateAll(ranks, 3);
  ranks.setLie([](int from, std::byte* said, size_t bytes) {
    if (from == 2 && bytes == sizeof(RankOffer)) reinterpret_cast<BufferOffer*>(said)->segment.fd += 1000;
  });
  for (const bool is_first : {true, false}) {
    EXPECT_EQ(ranks.ask(inputs, kBytes)[0], nullptr);
    EXPECT_EQ(ranks.confirmed(), is_first) << "what could not be mapped is remembered";
  }
}

// It could be mapped: of the same user, and as named.
TEST(PeerBuffers, AreRefusedByAllIfOneIsOfAThirdProcess) {
  Ranks ranks(3);
  const auto inputs = allocateAll(ranks, 3);
  ASSERT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  ranks.moveAway(1);
  EXPECT_EQ(ranks.ask(inputs, kBytes)[0], nullptr);
  EXPECT_FALSE(ranks.confirmed()) << "nobody tries";
}

TEST(PeerBuffers, SurviveOffersThatLie) {
  const std::function<void(BufferOffer&)> lies[] = {
      [](BufferOffer& offer) { offer.offset = UINT64_MAX; },
      [](BufferOffer& offer) { offer.offset = UINT64_MAX - kBytes + 1; },
      [](BufferOffer& offer) { offer.segment.bytes = UINT64_MAX; },
      [](BufferOffer& offer) { offer.segment.bytes = 1; },
      [](BufferOffer& offer) { ++offer.segment.id; },
      [](BufferOffer& offer) { offer.segment.pid = -1; },
      [](BufferOffer& offer) { offer.segment.pid = 1; },
      [](BufferOffer& offer) { offer.segment.fd = 0; },
  };
  for (const auto& lie : lies) {
    Ranks ranks(2);
    const auto inputs = allocateAll(ranks, 2);
    ranks.setLie([&](int from, std::byte* said, size_t bytes) {
      if (from == 1 && bytes == sizeof(RankOffer)) lie(*reinterpret_cast<BufferOffer*>(said));
    });
    EXPECT_EQ(ranks.ask(inputs, kBytes)[0], nullptr);
  }
}

TEST(PeerBuffers, OfFreedMemoryAreAnError) {
  Ranks ranks(2);
  const auto inputs = allocateAll(ranks, 2);
  ASSERT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  RankOffer stale;
  ranks.setLie([&](int from, std::byte* said, size_t bytes) {
    if (from == 1 && bytes == sizeof(RankOffer)) std::memcpy(&stale, said, sizeof stale);
  });
  ASSERT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  ASSERT_TRUE(ranks.list(1).free(const_cast<std::byte*>(inputs[1] - 100)).ok());
  Call call = ranks.view(0).offer({inputs[0], kBytes}, {}, false);
  std::memcpy(call.output, call.input, call.count);
  std::memcpy(call.output + call.count, &stale, sizeof stale);
  EXPECT_FALSE(ranks.view(0).needsConfirmation());
  const auto agreed = ranks.view(0).agreed();
  ASSERT_FALSE(agreed.ok());
  EXPECT_EQ(agreed.status().code(), Code::kRemoteError);
  EXPECT_NE(agreed.status().message().find("the input of rank 1"), std::string::npos);
}

TEST(PeerBuffers, KeepAnswersForSegmentsThatComeAndGo) {
  Ranks ranks(2);
  for (size_t i = 0; i < kMaxKnownSegments; ++i) {
    std::vector<const std::byte*> inputs;
    for (const int rank : {0, 1}) inputs.push_back(ranks.list(rank).allocate(64).take());
    ASSERT_NE(ranks.ask(inputs, 64)[0], nullptr) << i;
    for (const int rank : {0, 1})
      ASSERT_TRUE(ranks.list(rank).free(const_cast<std::byte*>(inputs[static_cast<size_t>(rank)])).ok());
  }
}

TEST(PeerBuffers, AreAskedForLessOftenWhereTheAnswerIsNo) {
  Ranks ranks(2);
  const std::vector<std::byte> ordinary(kBytes);
  int asked = 0;
  for (int call = 0; call < 160; ++call) {
    const bool asks = ranks.view(0).asks(false);
    ASSERT_EQ(ranks.view(1).asks(false), asks);
    if (!asks) continue;
    ++asked;
    EXPECT_EQ(ranks.ask({ordinary.data(), ordinary.data()}, kBytes)[0], nullptr);
  }
  EXPECT_GE(asked, 10);
  EXPECT_LE(asked, 20);
  // A yes makes them curious again.
  const auto inputs = allocateAll(ranks, 2);
  while (!ranks.view(0).asks(false)) ASSERT_FALSE(ranks.view(1).asks(false));
  ASSERT_TRUE(ranks.view(1).asks(false));
  ASSERT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  for (const int rank : {0, 1}) EXPECT_TRUE(ranks.view(rank).asks(false));
}

constexpr auto kOfSegments = PeerBuffers::Memory::kOfSegments;
using SingleCopy = PeerBuffers::SingleCopy;

// Ranks with ordinary inputs, each with different bytes.
class OrdinaryInputs : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;
  OrdinaryInputs() {
    for (int rank = 0; rank < kRanks; ++rank) {
      memory_.emplace_back(kBytes, static_cast<std::byte>(rank + 1));
      inputs_.push_back(memory_.back().data());
    }
  }
  Ranks make(SingleCopy single_copy) const { return Ranks(kRanks, kOfSegments, single_copy); }
  // In calls that move only.
  bool areRead(Ranks& ranks) const {
    ranks.onlyMove();
    const auto answers = ranks.ask(inputs_, kBytes);
    EXPECT_EQ(answers[0] != nullptr, ranks.readers()[0] != nullptr);
    return answers[0] != nullptr;
  }

  std::vector<std::vector<std::byte>> memory_;
  std::vector<const std::byte*> inputs_;
};

TEST_F(OrdinaryInputs, AreReadThroughTheKernelWhereTold) {
  Ranks ranks = make(SingleCopy::kAlways);
  ranks.onlyMove();
  for (const bool is_first : {true, false}) {
    const auto answers = ranks.ask(inputs_, kBytes);
    EXPECT_EQ(ranks.confirmed(), is_first) << "whether they can is found out once";
    ASSERT_NE(answers[0], nullptr);
    for (size_t rank = 0; rank < kRanks; ++rank)
      for (int32_t peer = 0; peer < kRanks; ++peer) {
        std::byte found{};
        const Status read = ranks.readers()[rank]->read(peer, &found, answers[rank][peer] + kBytes - 1, 1);
        ASSERT_TRUE(read.ok()) << read.toString();
        EXPECT_EQ(found, static_cast<std::byte>(peer + 1));
      }
  }
}

TEST_F(OrdinaryInputs, AreNotReadWhereNotWanted) {
  Ranks never = make(SingleCopy::kNever);
  EXPECT_FALSE(areRead(never));
  Ranks folding = make(SingleCopy::kAlways);
  EXPECT_EQ(folding.ask(inputs_, kBytes)[0], nullptr) << "what is folded is read again and again";
  Ranks sharing = make(SingleCopy::kAlways);
  const auto shared = allocateAll(sharing, kRanks);
  sharing.onlyMove();
  EXPECT_NE(sharing.ask(shared, kBytes)[0], nullptr);
  EXPECT_EQ(sharing.readers()[0], nullptr) << "what is mapped is read where it is";
  std::vector<std::span<std::byte>> outputs;
  for (int rank = 0; rank < kRanks; ++rank)
    outputs.emplace_back(sharing.list(rank).allocate(kBytes).take(), kBytes);
  sharing.setOutputs(outputs);
  EXPECT_FALSE(areRead(sharing)) << "all outputs can be written";
  EXPECT_NE(sharing.outputs()[0], nullptr);
}

TEST_F(OrdinaryInputs, AndSharedOnesAreReadAlike) {
  Ranks ranks = make(SingleCopy::kAlways);
  inputs_[1] = allocateAll(ranks, kRanks)[1];
  EXPECT_TRUE(areRead(ranks));
}

TEST_F(OrdinaryInputs, AreNotReadByAnybodyWhereOneRankCannot) {
  Ranks ranks = make(SingleCopy::kAlways);
  ranks.moveAway(1);  // its number is another process's, which has no such memory
  for (const bool is_first : {true, false}) {
    EXPECT_FALSE(areRead(ranks));
    EXPECT_EQ(ranks.confirmed(), is_first) << "nobody tries again";
  }
}

TEST_F(OrdinaryInputs, OfWhichOneCannotBeReadAreNotReadThisTime) {
  Ranks ranks = make(SingleCopy::kAlways);
  const std::byte* const readable = std::exchange(inputs_[1], reinterpret_cast<const std::byte*>(64));
  EXPECT_FALSE(areRead(ranks));
  inputs_[1] = readable;
  EXPECT_TRUE(areRead(ranks));
}

TEST_F(OrdinaryInputs, SurviveProofsThatLie) {
  const std::function<void(RankOffer&)> lies[] = {
      [](RankOffer& offer) { offer.proof = {}; },
      [](RankOffer& offer) { ++offer.proof.number; },
      [](RankOffer& offer) { offer.proof.address = 8; },
      [](RankOffer& offer) { offer.proof.address = UINT64_MAX; },
      [](RankOffer& offer) { offer.buffers[0].address = 0; },
  };
  for (const auto& lie : lies) {
    Ranks ranks = make(SingleCopy::kAlways);
    ranks.setLie([&](int from, std::byte* said, size_t bytes) {
      if (from == 1 && bytes == sizeof(RankOffer)) lie(*reinterpret_cast<RankOffer*>(said));
    });
    EXPECT_FALSE(areRead(ranks));
  }
}

TEST_F(OrdinaryInputs, ThatAreNoMemoryAreAnErrorOfTheirRank) {
  Ranks ranks = make(SingleCopy::kAlways);
  ASSERT_TRUE(areRead(ranks));
  std::vector<std::byte> output(kBytes);
  const Status nowhere =
      ranks.readers()[0]->read(1, output.data(), reinterpret_cast<const std::byte*>(64), kBytes);
  EXPECT_EQ(nowhere.code(), Code::kRemoteError);
  EXPECT_NE(nowhere.message().find("the input of rank 1"), std::string::npos) << nowhere.message();
}

TEST_F(OrdinaryInputs, TakeTheWayThatWasFasterForTheSlowestRank) {
  for (const CopyWay faster : {CopyWay::kSlots, CopyWay::kKernel}) {
    Ranks ranks = make(SingleCopy::kWhereFaster);
    // To all but one rank the other way is the faster one.
    ranks.setTimes([&](int rank, CopyWay way) -> int64_t {
      if (rank == 1) return way == faster ? 1000 : 9000;
      return way == faster ? 900 : 100;
    });
    int reads = 0;
    for (int call = 0; call < 8; ++call) reads += areRead(ranks);
    EXPECT_EQ(reads, 4) << "both are tried";
    for (int call = 0; call < 5; ++call) EXPECT_EQ(areRead(ranks), faster == CopyWay::kKernel);
  }
}

TEST_F(OrdinaryInputs, StillAskWhileBothWaysAreTried) {
  Ranks ranks = make(SingleCopy::kWhereFaster);
  ranks.setTimes([](int, CopyWay way) -> int64_t { return way == CopyWay::kSlots ? 100 : 101; });
  int asked = 0;
  for (int call = 0; call < 60; ++call) {
    const bool asks = ranks.view(0).asks(true);
    for (int rank = 1; rank < kRanks; ++rank) ASSERT_EQ(ranks.view(rank).asks(true), asks);
    if (!asks) continue;
    ++asked;
    areRead(ranks);
  }
  EXPECT_GE(asked, 24) << "16 tries, then fewer";
  EXPECT_LE(asked, 29);
}

TEST(CopyTrial, IsOverSoonerWhereOneWayIsClearlyFaster) {
  for (const auto& [kernel_ns, calls] : {std::pair{100, 8}, std::pair{1000, 16}}) {
    CopyTrial trial;
    int tried = 0;
    for (; !trial.isDecided(1 << 16); ++tried) {
      const CopyWay way = trial.choose(1 << 16, trial.own(1 << 16));
      if (trial.isDecided(1 << 16)) break;
      trial.took(1 << 16, way, way == CopyWay::kSlots ? 1100 : kernel_ns);
    }
    EXPECT_EQ(tried, calls);
    EXPECT_FALSE(trial.isDecided(1 << 20)) << "each class of sizes for itself";
  }
}

}  // namespace
}  // namespace horing
