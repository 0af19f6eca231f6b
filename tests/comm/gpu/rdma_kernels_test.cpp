// Kernels whose messages to other nodes adapters move: emulated ones, with a driver that has no GPU (fake_cuda) and devices in memory
// (verbs_fake.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "../../transport/verbs_fake.h"
#include "../comm_ranks.h"
#include "comm/queue/command_queue.h"
#include "emulated_kernels.h"
#include "fake_cuda/fake_gpu.h"

namespace horing::testing {
namespace {

using test::FakeCuda;
using test::GpuStream;
using test::GpuVector;

constexpr int kRanks = 3;

// Each rank is a node with one device and a GPU.
class GpuOverRdma : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FakeCuda::isReal()) GTEST_SKIP() << "adapters in memory reach no real GPU";
    cuda_.setKernels(&test::emulatedKernels());
    cuda_.orderWrites(true);
    driver_ = CudaDriver::ofProcess();
    ASSERT_TRUE(driver_ && driver_->api().ok());
  }
  void meet(const char* transports = "verbs") {
    root_ = rootOfThisMachine();
    ranks_ = makeRanks(kRanks, *root_, [&](CommunicatorOptions& options) {
      options.config.transports = transports;
      options.config.socket_ifname = "=lo";
      options.config.host_id = "node " + std::to_string(options.rank);
      options.config.ib_hca = std::string("=") + kDevices[options.rank];
      options.config.ib_registered_mb = registered_mb_[options.rank];
      options.config.gpu_proxies = 1;
      options.config.ib_gpu_memory = gpu_memory_;
      options.config.timeout_ms = 60'000;
      options.verbs = &verbs_.library();
      options.gpu = CudaDevice::open(driver_->api().value(), options.rank).take();
    });
    ASSERT_FALSE(HasFailure());
    onEveryRank(kRanks, [&](int rank) {
      Communicator& own = *ranks_[static_cast<size_t>(rank)];
      queues_[rank] = std::make_unique<CommandQueue>(own);
      EXPECT_TRUE(queues_[rank]->agreeAtOnce().ok() &&
                  queues_[rank]->bind(own.membership().options().gpu).ok());
    });
  }
  void leave() {
    onEveryRank(kRanks, [&](int rank) { queues_[rank].reset(); });
    for (auto& rank : ranks_) EXPECT_TRUE(!rank || rank->leave().ok());
    ranks_.clear();
  }
  void TearDown() override {
    leave();
    cuda_.orderWrites(false);
    cuda_.setKernels(nullptr);
  }

  // All ranks; each returns its final status.
  std::vector<Status> addUp(size_t count) {
    std::vector<Status> ends(kRanks);
    onEveryRank(kRanks, [&](int rank) {
      const CurrentGpu current(cuda_, rank);
      std::vector<float> values(count);
      std::iota(values.begin(), values.end(), static_cast<float>(rank));
      const GpuVector<float> from(cuda_, rank, values), into(cuda_, rank, std::vector<float>(count));
      const GpuStream stream(cuda_, rank);
      Command command(CollectiveCommand{{{.count = count},
                                         {.input = reinterpret_cast<std::byte*>(from.data()),
                                          .output = reinterpret_cast<std::byte*>(into.data())}}});
      command.on_gpu = true;
      const CudaStream on = stream.get();
      const auto queued = queues_[rank]->enqueue(command, {&on, 1});
      EXPECT_TRUE(queued.ok() && queued.value()) << queued.status().toString() << ", or by hosts";
      EXPECT_TRUE(queues_[rank]->start().ok() && queues_[rank]->settle().ok());
      stream.synchronize();
      ends[static_cast<size_t>(rank)] = queues_[rank]->asyncError();
      if (!ends[static_cast<size_t>(rank)].ok()) return;
      for (size_t i = 0; i < count; ++i) values[i] = 3 * static_cast<float>(i) + 3;
      EXPECT_EQ(into.read(), values) << "rank " << rank;
    });
    return ends;
  }
  void expectSums(size_t count) {
    for (const Status& end : addUp(count)) EXPECT_TRUE(end.ok()) << end.toString();
  }

  using CurrentGpu = test::CurrentGpu;
  static constexpr const char* kDevices[kRanks] = {"a0", "b0", "c0"};
  static FakeDevice device(int rank) {
    return {.name = kDevices[rank], .wire = 0, .gid = fakeGid(0, rank + 1)};
  }
  const FakeCuda cuda_;
  FakeVerbs verbs_{{device(0), device(1), device(2)}};
  std::unique_ptr<CudaDriver> driver_;
  std::unique_ptr<RootService> root_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
  std::unique_ptr<CommandQueue> queues_[kRanks];
  int64_t registered_mb_[kRanks] = {1024, 1024, 1024};
  const char* gpu_memory_ = "auto";
};

TEST_F(GpuOverRdma, AdaptersMoveWhatKernelsSendFromGpuToGpu) {
  meet();
  for (const size_t count : {1, 50'000, 1'000'000}) expectSums(count);
  const int with = verbs_.resources();
  leave();
  cuda_.orderWrites(false);
  meet();
  expectSums(1'000'000);
  EXPECT_EQ(verbs_.resources(), with - kRanks) << "the memory of GPUs that do not order what adapters write";
}

TEST_F(GpuOverRdma, AdaptersFindTheMemoryOfGpusByItsAddress) {
  for (const char* const device : kDevices) verbs_.device(device).dmabufs = false;
  verbs_.findGpuMemory([&](const void* address) { return cuda_.dataAt(address); });
  gpu_memory_ = "peermem";
  meet();
  for (const size_t count : {1, 300'000}) expectSums(count);
  const int with = verbs_.resources();
  leave();
  gpu_memory_ = "0";
  meet();
  expectSums(300'000);
  EXPECT_EQ(verbs_.resources(), with - kRanks) << "the memory of GPUs, which is not to be had";
}

TEST_F(GpuOverRdma, EachRankMayKeepItsSlotsInMemoryOfTheHost) {
  verbs_.device("b0").dmabufs = false;
  meet();
  for (const size_t count : {1, 300'000}) expectSums(count);
}

// A rank that can lock little memory sends from the link's slots; the other ranks receive into their GPUs.
TEST_F(GpuOverRdma, ARankWithoutRegisteredMemorySendsToGpus) {
  for (const int64_t limit : {1, 0}) {
    registered_mb_[1] = limit;
    meet();
    for (const size_t count : {1, 300'000}) expectSums(count);
    leave();
  }
}

TEST_F(GpuOverRdma, HostsCopyWhereNothingIsRegistered) {
  std::fill_n(registered_mb_, kRanks, 0);
  meet();
  for (const size_t count : {1, 300'000}) expectSums(count);
}

// Sockets join all, and what adapters would have is lent to none.
TEST_F(GpuOverRdma, TransportsThatNobodyUsesHaveNoMemory) {
  meet("socket,verbs");
  expectSums(1000);
  const int with = verbs_.resources();
  leave();
  std::fill_n(registered_mb_, kRanks, 0);
  meet("socket,verbs");
  expectSums(1000);
  EXPECT_EQ(verbs_.resources(), with);
}

// All have agreed, and then no link comes up.
TEST_F(GpuOverRdma, SocketsInItsPlaceReachNoGpu) {
  meet("verbs,socket");
  verbs_.device("b0").registers = false;
  for (const Status& end : addUp(1000)) {
    EXPECT_FALSE(end.ok());
    EXPECT_NE(end.message().find("took its place"), std::string::npos) << end.toString();
  }
}

}  // namespace
}  // namespace horing::testing
