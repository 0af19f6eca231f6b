// Ranks that ask each other where their inputs lie: they must decide alike, whatever one of them says.
#include "comm/peer_buffers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>

namespace horing {
namespace {

// Ranks, each with memory and a view of its own, and the messages between them.
class Ranks {
 public:
  explicit Ranks(int count, PeerBuffers::Memory memory = PeerBuffers::Memory::kOfSegments)
      : map_(GroupMap::blocks(1, count)),
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
  // Changes what a rank says in the next rounds.
  void setLie(std::function<void(int rank, std::byte* said, size_t bytes)> lie) { lie_ = std::move(lie); }

  // All ranks' answers to one question, by rank; all are null, or none is.
  std::vector<const std::byte* const*> ask(const std::vector<const std::byte*>& inputs, size_t bytes) {
    confirmed_ = false;
    exchange([&](size_t rank) { return views_[rank]->offer({inputs[rank], bytes}, outputs_[rank]); });
    size_t wanting = 0;
    for (const auto& view : views_) wanting += view->needsConfirmation();
    EXPECT_TRUE(wanting == 0 || wanting == views_.size()) << "a second round of some ranks only";
    if (wanting > 0) exchange([&](size_t rank) { return views_[rank]->confirmation(); });
    confirmed_ = wanting > 0;
    std::vector<const std::byte* const*> answers;
    found_outputs_.clear();
    for (const auto& view : views_) {
      const auto agreed = view->agreed();
      EXPECT_TRUE(agreed.ok()) << agreed.status().toString();
      answers.push_back(agreed.ok() ? agreed.value().inputs : nullptr);
      found_outputs_.push_back(agreed.ok() ? agreed.value().outputs : nullptr);
      EXPECT_EQ(found_outputs_.back() == nullptr, found_outputs_[0] == nullptr) << "ranks decide differently";
      EXPECT_EQ(answers.back() == nullptr, answers[0] == nullptr) << "ranks decide differently";
    }
    for (const auto& view : views_) view->learn(answers[0] != nullptr);
    return answers;
  }
  bool confirmed() const { return confirmed_; }
  // Those of the next questions; none at first.
  void setOutputs(std::vector<std::span<std::byte>> outputs) { outputs_ = std::move(outputs); }
  // By rank; those by position that it may write.
  const std::vector<std::byte* const*>& outputs() const { return found_outputs_; }
  PeerBuffers& view(int rank) { return *views_[static_cast<size_t>(rank)]; }

 private:
  void makeViews(PeerBuffers::Memory memory) {
    views_.clear();
    for (int rank = 0; rank < map_.ranks(); ++rank)
      views_.push_back(std::make_unique<PeerBuffers>(list(rank), map_, rank, memory, processes_));
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
    if (from == 2 && bytes == 2 * sizeof(BufferOffer))
      reinterpret_cast<BufferOffer*>(said)->segment.fd += 1000;
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
      if (from == 1 && bytes == 2 * sizeof(BufferOffer)) lie(*reinterpret_cast<BufferOffer*>(said));
    });
    EXPECT_EQ(ranks.ask(inputs, kBytes)[0], nullptr);
  }
}

TEST(PeerBuffers, OfFreedMemoryAreAnError) {
  Ranks ranks(2);
  const auto inputs = allocateAll(ranks, 2);
  ASSERT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  std::array<BufferOffer, 2> stale;
  ranks.setLie([&](int from, std::byte* said, size_t bytes) {
    if (from == 1 && bytes == 2 * sizeof(BufferOffer)) std::memcpy(&stale, said, sizeof stale);
  });
  ASSERT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  ASSERT_TRUE(ranks.list(1).free(const_cast<std::byte*>(inputs[1] - 100)).ok());
  Call call = ranks.view(0).offer({inputs[0], kBytes}, {});
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
    const bool asks = ranks.view(0).asks();
    ASSERT_EQ(ranks.view(1).asks(), asks);
    if (!asks) continue;
    ++asked;
    EXPECT_EQ(ranks.ask({ordinary.data(), ordinary.data()}, kBytes)[0], nullptr);
  }
  EXPECT_GE(asked, 10);
  EXPECT_LE(asked, 20);
  // A yes makes them curious again.
  const auto inputs = allocateAll(ranks, 2);
  while (!ranks.view(0).asks()) ASSERT_FALSE(ranks.view(1).asks());
  ASSERT_TRUE(ranks.view(1).asks());
  ASSERT_NE(ranks.ask(inputs, kBytes)[0], nullptr);
  for (const int rank : {0, 1}) EXPECT_TRUE(ranks.view(rank).asks());
}

}  // namespace
}  // namespace horing
