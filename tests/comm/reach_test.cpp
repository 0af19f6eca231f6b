// Memory that other ranks reach, over a fake transport that records its calls.
#include "comm/reach/reach.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/config.h"

namespace horing {
namespace {

class NotingTransport final : public Transport, public RegionAccess {
 public:
  explicit NotingTransport(bool uses_lent_memory) : uses_lent_memory_(uses_lent_memory) {}
  const char* name() const override { return "noting"; }
  std::vector<std::byte> address() const override { return {}; }
  bool canReach(std::span<const std::byte>) const override { return true; }
  std::string whyUnreachable(std::span<const std::byte>) const override { return {}; }
  Result<Link*> connect(int, std::span<const std::byte>, const LinkShape&, int) override {
    return makeStatus(Code::kInternalError, "it makes no links");
  }
  Status progress() override { return {}; }
  void beginWait() override {}
  int waitFd() const override { return -1; }
  void endWait() override {}
  uint64_t memoryBytes() const override { return 0; }
  RegionAccess* regions() override { return this; }

  bool usesLentMemory() const override { return uses_lent_memory_; }
  bool usesOrdinaryMemory() const override { return false; }
  bool usesGpuMemory() const override { return false; }
  bool mayKeepMemory() override { return false; }
  void lend(const Region& region) override { lent.push_back(region.id); }
  void takeBack(const Region& region) override { taken_back.push_back(region.id); }
  void forget(uint64_t region) override { forgotten.push_back(region); }
  bool holds(const std::byte*, size_t) const override { return false; }
  DataMoved dataMoved() const override { return {}; }

  std::vector<uint64_t> lent, taken_back, forgotten;

 private:
  const bool uses_lent_memory_;
};

class ReachTest : public ::testing::Test {
 protected:
  explicit ReachTest(bool uses_lent_memory = true) {
    auto made = std::make_unique<NotingTransport>(uses_lent_memory);
    transport_ = made.get();
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(std::move(made));
    connector_ = std::make_unique<Connector>(0, std::vector<LinkShape>(1), std::move(transports));
    reach_ = std::make_unique<Reach>(Reach::Parts{.communicator = id_,
                                                  .rank = 0,
                                                  .connector = *connector_,
                                                  .segments = &segments_,
                                                  .ib_gpu_memory = "auto",
                                                  .log = log_,
                                                  .is_forked_child = [] { return false; }});
    // As in a communicator: the choice is made later.
    connector_->setChoices({-1, 0});
  }

  const JobId id_{};
  const Log log_{LogLevel::kNone};
  SegmentList segments_;
  NotingTransport* transport_ = nullptr;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Reach> reach_;
};

class ReachWithoutLentMemory : public ReachTest {
 protected:
  ReachWithoutLentMemory() : ReachTest(false) {}
};

TEST_F(ReachTest, AdaptersForgetSharedMemoryThatIsFreed) {
  const Result<std::byte*> memory = segments_.allocate(1 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status().toString();
  const uint64_t id = segments_.find(memory.value(), 1)->name.id;
  ASSERT_TRUE(segments_.free(memory.value()).ok());
  EXPECT_EQ(transport_->forgotten, std::vector<uint64_t>{id});
}

TEST_F(ReachTest, AdaptersForgetRegisteredMemoryThatIsDeregistered) {
  std::vector<std::byte> memory(kInPlaceBytes);
  const Result<void*> handle = reach_->registerMemory(memory.data(), memory.size());
  ASSERT_TRUE(handle.ok() && handle.value());
  EXPECT_TRUE(reach_->deregister(handle.value()).ok());
  EXPECT_EQ(transport_->forgotten.size(), 1u);
  EXPECT_EQ(reach_->deregister(handle.value()).code(), Code::kInvalidArgument) << "once";
}

TEST_F(ReachTest, AMessageLendsRegisteredMemoryUntilItHasEnded) {
  std::vector<std::byte> memory(kInPlaceBytes);
  const Transfer transfer{.kind = Transfer::Send{memory.data()}, .peer = 1, .bytes = memory.size()};
  reach_->lend(1, {&transfer, 1});
  EXPECT_TRUE(transport_->lent.empty()) << "nobody registered it";
  ASSERT_TRUE(reach_->registerMemory(memory.data(), memory.size()).ok());
  reach_->lend(1, {&transfer, 1});
  ASSERT_EQ(transport_->lent.size(), 1u);
  reach_->takeBack(/*failed=*/false);
  EXPECT_EQ(transport_->taken_back, transport_->lent);
  EXPECT_TRUE(transport_->forgotten.empty()) << "it stays registered";
  Transfer small = transfer;
  small.bytes = kInPlaceBytes - 1;
  reach_->lend(1, {&small, 1});
  EXPECT_EQ(transport_->lent.size(), 1u);
}

TEST_F(ReachWithoutLentMemory, NothingIsRegistered) {
  std::vector<std::byte> memory(kInPlaceBytes);
  EXPECT_EQ(reach_->registerMemory(memory.data(), memory.size()).value(), nullptr);
}

}  // namespace
}  // namespace horing
