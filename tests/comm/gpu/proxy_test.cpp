// The proxy, with the test in place of the kernels.
#include "comm/gpu/proxy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <new>
#include <thread>

#include "../../engine/cuda/gpu_world.h"
#include "base/no_memory.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/loopback/loopback_transport.h"

namespace horing {
namespace {

constexpr cuda::QueueShape kShape{3, 4096};

// Another transport, which counts how often its user is about to sleep, and can run out of memory.
class CountingTransport final : public Transport {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, std::atomic<int>& sleeps, std::atomic<bool>& no_memory)
      : inner_(std::move(inner)), sleeps_(sleeps), no_memory_(no_memory) {}
  const char* name() const override { return inner_->name(); }
  std::vector<std::byte> address() const override { return inner_->address(); }
  bool canReach(std::span<const std::byte> address) const override { return inner_->canReach(address); }
  std::string whyUnreachable(std::span<const std::byte> address) const override {
    return inner_->whyUnreachable(address);
  }
  Result<Link*> connect(int peer, std::span<const std::byte> address, const LinkShape& shape,
                        int number) override {
    return inner_->connect(peer, address, shape, number);
  }
  Status progress() override {
    if (no_memory_.exchange(false)) throw std::bad_alloc();
    return inner_->progress();
  }
  void beginWait() override {
    ++sleeps_;
    inner_->beginWait();
  }
  int waitFd() const override { return inner_->waitFd(); }
  void endWait() override { inner_->endWait(); }
  uint64_t memoryBytes() const override { return inner_->memoryBytes(); }
  RegionAccess* regions() override { return inner_->regions(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::atomic<int>& sleeps_;
  std::atomic<bool>& no_memory_;
};

// A rank with one kernel of one block, which uses the first of two queues. Who sleeps while there is something to look after does so
// for an hour.
class Side {
 public:
  Side(const std::shared_ptr<LoopbackHub>& hub, int rank, const FaultPlan& faults, int64_t left_ms)
      : rank_(rank) {
    GpuProxyOptions options;
    options.rank = rank;
    options.transports.push_back(std::make_unique<CountingTransport>(
        makeFaultyTransport(makeLoopbackTransport(hub, rank).take(), rank, faults), sleeps_, no_memory_));
    options.shape = {2, kShape.slots, kShape.slot_bytes};
    options.timeout_ms = [this] { return timeout_ms_.load(); };
    options.left_ms = left_ms;
    options.sleep_ms = 3'600'000;
    options.abort = &abort_;
    options.news = [] { return Status(); };
    options.fail = [this](const Status& status) {
      if (!failed_.exchange(true)) failure_.set_value(status);
    };
    proxy_ = std::make_unique<GpuProxy>(std::move(options));
    queue_ = cuda::makeQueue(kShape, memory_, memory_).take();
    idle_ = cuda::makeQueue(kShape, memory_, memory_).take();
  }
  GpuProxy& proxy() { return *proxy_; }
  cuda::Port& kernelsEnd() { return sends() ? queue_.send : queue_.receive; }
  void start(const AddressTable& table) {
    proxy_->setAddresses(table);
    std::vector<int> choices = {0, 0};
    choices[static_cast<size_t>(rank_)] = -1;
    ASSERT_TRUE(proxy_->start(choices).ok());
    proxy_->add({1 - rank_, 0, sends(), sends() ? queue_.receive : queue_.send});
    proxy_->add({1 - rank_, 1, sends(), sends() ? idle_.receive : idle_.send});
    proxy_->watch({&block_, 1});
  }
  void kernelBegins() { cuda::storeRelease(&block_.begun, block_.begun + 1); }
  void kernelEnds() { cuda::storeRelease(&block_.ended, block_.begun); }
  // Hangs if it sleeps without an end.
  void awaitSleeps() {
    for (const int enough = sleeps_ + 3; sleeps_ < enough;) std::this_thread::yield();
  }
  Status failure() { return failure_.get_future().get(); }
  bool hasFailed() const { return failed_; }
  void setTimeout(int64_t timeout_ms) { timeout_ms_ = timeout_ms; }
  // For the next thing that its thread does.
  void runOutOfMemory() { no_memory_ = true; }

 private:
  bool sends() const { return rank_ == 0; }
  const int rank_;
  test::HostMemory memory_;
  cuda::Queue queue_, idle_;
  cuda::Activity block_;
  uint32_t abort_ = 0;
  std::atomic<int> sleeps_{0};
  std::atomic<bool> no_memory_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> timeout_ms_{10'000};
  std::promise<Status> failure_;
  std::unique_ptr<GpuProxy> proxy_;
};

// Rank 0 sends to rank 1.
class GpuProxies : public testing::Test {
 protected:
  void start(const FaultPlan& faults = {}, int64_t left_ms = 3'600'000) {
    const auto hub = LoopbackHub::create(2).take();
    AddressTable table;
    for (int rank = 0; rank < 2; ++rank) {
      sides_.push_back(std::make_unique<Side>(hub, rank, faults, left_ms));
      table.push_back(sides_.back()->proxy().addresses());
    }
    for (const auto& side : sides_) {
      side->start(table);
      side->proxy().launched(GpuProxy::Launch::kOnce, 1);
    }
  }
  Side& sender() { return *sides_[0]; }
  Side& receiver() { return *sides_[1]; }
  void send(uint64_t tag) {
    cuda::Port& port = sender().kernelsEnd();
    while (!port.canSend()) std::this_thread::yield();
    port.labels[port.slot] = {tag, 8};
    std::memcpy(port.data(), &tag, sizeof tag);
    port.advance();
  }
  uint64_t receive() {
    cuda::Port& port = receiver().kernelsEnd();
    while (!port.canReceive()) std::this_thread::yield();
    uint64_t value = 0;
    std::memcpy(&value, port.data(), sizeof value);
    EXPECT_EQ(port.labels[port.slot].tag, value);
    port.advance();
    return value;
  }
  // From here on kernels run, and the link is up.
  void kernelsMeet() {
    for (const auto& side : sides_) side->kernelBegins();
    send(1);
    EXPECT_EQ(receive(), 1U);
  }
  std::vector<std::unique_ptr<Side>> sides_;
};

TEST_F(GpuProxies, TellTheOthersWhenMemoryRunsOut) {
  start();
  kernelsMeet();
  sender().runOutOfMemory();
  EXPECT_EQ(sender().failure().message(), noMemory().message());
  EXPECT_FALSE(receiver().hasFailed());
  // Until kernels are ended, it carries what it can.
  send(2);
  EXPECT_EQ(receive(), 2U);
  for (const auto& side : sides_) side->kernelEnds();
}

// No event announces that a kernel begins, posts or releases.
TEST_F(GpuProxies, WakeForKernelsWhenTheySleep) {
  start();
  for (const auto& side : sides_) {
    side->awaitSleeps();  // it is to come
    side->kernelBegins();
    side->awaitSleeps();  // it runs
  }
  for (uint64_t tag = 1; tag < 20; ++tag) {
    send(tag);
    EXPECT_EQ(receive(), tag);
    if (tag % 5 == 0) sender().awaitSleeps();
  }
  for (const auto& side : sides_) side->kernelEnds();
}

TEST_F(GpuProxies, WakeForReplaysThatNobodyTellsOf) {
  start();
  for (const auto& side : sides_) {
    side->kernelBegins();
    side->kernelEnds();
    side->proxy().launched(GpuProxy::Launch::kReplayed, 1);
    side->awaitSleeps();
  }
  send(7);
  EXPECT_EQ(receive(), 7U);
}

TEST_F(GpuProxies, WakeForALaunchAfterALongSleep) {
  start();
  for (const auto& side : sides_) {
    side->kernelBegins();
    side->kernelEnds();
    side->proxy().launched(GpuProxy::Launch::kOnce, 1);
    side->awaitSleeps();
    side->kernelBegins();
  }
  send(7);
  EXPECT_EQ(receive(), 7U);
  for (const auto& side : sides_) side->kernelEnds();
}

// The kernel has had messages, and waits for more that will never come.
TEST_F(GpuProxies, TellOfALinkThatFailsWhileAKernelRuns) {
  start({.cut_peer = 0, .cut_after_messages = 2});
  for (const auto& side : sides_) side->kernelBegins();
  for (uint64_t tag = 1; tag < 3; ++tag) {
    send(tag);
    EXPECT_EQ(receive(), tag);
  }
  send(3);
  const Status failure = receiver().failure();
  EXPECT_EQ(failure.code(), Code::kRemoteError);
  EXPECT_NE(failure.message().find("rank 0"), std::string::npos) << failure.message();
  for (const auto& side : sides_) side->kernelEnds();
}

// More than one queue holds, though on another channel nothing comes.
TEST_F(GpuProxies, DeliverWhatAPeerHadSentBeforeItLeft) {
  start();
  kernelsMeet();
  constexpr uint64_t kLast = 1 + 2 * kShape.slots;
  for (uint64_t tag = 2; tag <= kLast; ++tag) send(tag);
  sender().kernelEnds();
  sides_.erase(sides_.begin());
  sides_[0]->awaitSleeps();  // it has seen that
  cuda::Port& port = sides_[0]->kernelsEnd();
  for (uint64_t tag = 2; tag <= kLast; ++tag) {
    const auto begun = std::chrono::steady_clock::now();
    while (!port.canReceive() && std::chrono::steady_clock::now() - begun < std::chrono::seconds(5))
      std::this_thread::yield();
    ASSERT_TRUE(port.canReceive()) << "message " << tag;
    EXPECT_EQ(port.labels[port.slot].tag, tag);
    port.advance();
  }
  sides_[0]->kernelEnds();
}

// As it is when they end, not when they were made.
TEST_F(GpuProxies, WaitForPeersThatTakeNothingAsLongAsTheTimeoutSays) {
  start();
  kernelsMeet();
  cuda::Port& port = sender().kernelsEnd();
  // Until all slots of both ends and of the link are full.
  for (auto since = std::chrono::steady_clock::now();
       std::chrono::steady_clock::now() - since < std::chrono::milliseconds(300);) {
    if (!port.canSend()) continue;
    send(2);
    since = std::chrono::steady_clock::now();
  }
  sender().kernelEnds();
  sender().setTimeout(500);
  const auto begun = std::chrono::steady_clock::now();
  sides_.erase(sides_.begin());
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(took, std::chrono::milliseconds(450));
  EXPECT_LT(took, std::chrono::seconds(8));
  sides_[0]->kernelEnds();
  sides_[0]->setTimeout(0);
}

// Its kernel has ended, and this one may wait for another rank: the ranks know the missing rank from each other's calls.
TEST_F(GpuProxies, AreStillWhenAPeerHasLeftInOrderWhileAKernelRuns) {
  start({}, 100);
  kernelsMeet();
  sender().kernelEnds();
  sides_.erase(sides_.begin());
  // Twice as long as a kernel must be without progress next to a failed link.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_FALSE(sides_[0]->hasFailed());
  sides_[0]->kernelEnds();
}

// Ranks do not report graph replays.
TEST_F(GpuProxies, TellAfterAWhileOfAPeerThatHasLeftWhileAReplayedKernelRuns) {
  start({}, 1500);
  kernelsMeet();
  for (const auto& side : sides_) side->kernelEnds();
  sides_[1]->proxy().launched(GpuProxy::Launch::kReplayed, 1);
  sides_.erase(sides_.begin());
  // Time in which it did not wait does not count.
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  EXPECT_FALSE(sides_[0]->hasFailed());
  const auto begun = std::chrono::steady_clock::now();
  sides_[0]->kernelBegins();
  const Status failure = sides_[0]->failure();
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(1000));
  EXPECT_EQ(failure.code(), Code::kRemoteError);
  EXPECT_NE(failure.message().find("rank 0 has left"), std::string::npos) << failure.message();
  sides_[0]->kernelEnds();
}

}  // namespace
}  // namespace horing
