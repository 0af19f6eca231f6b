// Messages of GPU memory over RDMA: with a fake driver without a GPU (fake_cuda), whose memory crashes host accesses, and with
// devices in memory (verbs_fake.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <vector>

#include "../../temporary_folder.h"
#include "../../transport/verbs_fake.h"
#include "../comm_ranks.h"
#include "comm/queue/command_queue.h"
#include "cuda/adapter_memory.h"
#include "fake_cuda/fake_gpu.h"

namespace horing::testing {
namespace {

using test::FakeCuda;
using test::GpuStream;
using test::GpuVector;
using Bytes = std::vector<uint8_t>;

constexpr int kRanks = 2;
constexpr int64_t kForEverUs = std::numeric_limits<int64_t>::max();

Bytes pattern(int rank, size_t bytes, int round) {
  Bytes values(bytes);
  for (size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(rank * 31 + round));
  return values;
}

FakeDevice device(const char* name, int wire, int host) {
  return {.name = name, .wire = wire, .gid = fakeGid(wire, host)};
}

// Rank 0 has devices a0 and a1 and GPU 0, rank 1 has b0 and b1 and GPU 1.
class GpuInPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FakeCuda::isReal()) GTEST_SKIP() << "adapters in memory reach no real GPU";
    driver_ = CudaDriver::ofProcess();
    ASSERT_TRUE(driver_ && driver_->api().ok());
    root_ = rootOfThisMachine();
    ranks_ = makeRanks(kRanks, *root_, [&](CommunicatorOptions& options) {
      options.config.transports = network();
      options.config.socket_ifname = "=lo";
      options.config.ib_gpu_memory = gpuMemory();
      options.config.ib_hca = options.rank == 0 ? "=a0,a1" : "=b0,b1";
      options.config.timeout_ms = 600'000;  // nothing here waits for it
      options.verbs = &verbs_.library();
    });
    ASSERT_FALSE(HasFailure());
    onEveryRank(kRanks, [&](int rank) {
      queues_[rank] = std::make_unique<CommandQueue>(*ranks_[static_cast<size_t>(rank)]);
      gpus_[rank] = CudaDevice::open(driver_->api().value(), rank).take();
      ASSERT_TRUE(queues_[rank]->bind(gpus_[rank]).ok());
    });
  }
  virtual const char* network() const { return "verbs"; }
  virtual const char* gpuMemory() const { return "auto"; }
  void TearDown() override {
    cuda_.fail(nullptr, 0);
    cuda_.slowCopies(0);
    for (auto& queue : queues_) queue.reset();
    for (auto& rank : ranks_) EXPECT_TRUE(!rank || rank->leave().ok());
  }

  // Memory of a rank's GPU, registered from `skipped` on or not.
  class Memory {
   public:
    Memory(GpuInPlaceTest& test, int rank, const Bytes& values, bool is_registered, size_t skipped = 0)
        : comm_(*test.ranks_[static_cast<size_t>(rank)]), vector_(test.cuda_, rank, values) {
      if (!is_registered) return;
      auto handle =
          comm_.reach().registerMemory(data() + skipped, values.size() - skipped, test.gpus_[rank].get());
      EXPECT_TRUE(handle.ok()) << handle.status().toString();
      handle_ = handle.ok() ? handle.value() : nullptr;
    }
    ~Memory() { EXPECT_TRUE(!handle_ || comm_.reach().deregister(handle_).ok()); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    std::byte* data() const { return reinterpret_cast<std::byte*>(vector_.data()); }
    const void* handle() const { return handle_; }
    Bytes read() const { return vector_.read(); }

   private:
    Communicator& comm_;
    const GpuVector<uint8_t> vector_;
    void* handle_ = nullptr;
  };

  // Both ranks send the other so many bytes from `skipped` on in their memory, once complete on return and once on a stream.
  struct Exchange {
    size_t bytes = 0;
    bool registered[kRanks] = {true, true};
    size_t skipped = 0;
  };
  void exchange(const Exchange& of) {
    onEveryRank(kRanks, [&](int rank) {
      for (const bool on_stream : {false, true}) {
        const Bytes mine = pattern(rank, of.skipped + of.bytes, on_stream);
        const Memory from(*this, rank, mine, of.registered[rank], of.skipped);
        const Memory into(*this, rank, Bytes(mine.size()), of.registered[rank], of.skipped);
        Command command(ExchangeCommand{
            {{.kind = Transfer::Send{from.data() + of.skipped}, .peer = 1 - rank, .bytes = of.bytes},
             {.kind = Transfer::Receive{into.data() + of.skipped}, .peer = 1 - rank, .bytes = of.bytes}}});
        command.on_gpu = true;
        queues_[rank]->moveInPlace(command);
        if (on_stream) {
          const GpuStream stream(cuda_, rank);
          EXPECT_TRUE(queues_[rank]->submit(std::move(command), stream.get()).ok());
          stream.synchronize();
          queues_[rank]->drain();
        } else {
          const Status status = queues_[rank]->run(command);
          EXPECT_TRUE(status.ok()) << status.toString();
        }
        Bytes expected = pattern(1 - rank, of.skipped + of.bytes, on_stream);
        std::fill_n(expected.begin(), of.skipped, uint8_t{0});
        EXPECT_EQ(into.read(), expected) << "rank " << rank << (on_stream ? " on a stream" : "");
      }
    });
  }
  // Of both exchanges.
  void expectMoved(int rank, size_t in_place, size_t through_slots) const {
    const DataMoved moved = ranks_[static_cast<size_t>(rank)]->reach().dataMoved();
    EXPECT_EQ(moved.sent_in_place, in_place) << "rank " << rank;
    EXPECT_EQ(moved.sent_through_slots, through_slots) << "rank " << rank;
  }

  const FakeCuda cuda_;
  FakeVerbs verbs_{{device("a0", 0, 1), device("a1", 1, 1), device("b0", 0, 2), device("b1", 1, 2)}};
  std::unique_ptr<CudaDriver> driver_;
  std::unique_ptr<RootService> root_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
  std::unique_ptr<CommandQueue> queues_[kRanks];
  std::shared_ptr<const CudaDevice> gpus_[kRanks];
};

TEST_F(GpuInPlaceTest, RegisteredMemoryMovesByAdaptersAlone) {
  constexpr size_t kBytes = (3 << 20) + 5;
  const int flushes = cuda_.flushes();
  exchange({.bytes = kBytes, .skipped = 1000});
  for (int rank = 0; rank < kRanks; ++rank) {
    expectMoved(rank, 2 * kBytes, 0);
    EXPECT_EQ(ranks_[static_cast<size_t>(rank)]->reach().dataMoved().received_in_place, 2 * kBytes);
    EXPECT_EQ(ranks_[static_cast<size_t>(rank)]->reach().dataMoved().received_through_slots, 0u);
  }
  EXPECT_GE(cuda_.flushes() - flushes, 4) << "by each rank that received, each time";
}

TEST_F(GpuInPlaceTest, FromSixtyFourKibibytesOn) {
  exchange({.bytes = kInPlaceBytes - 1});
  expectMoved(0, 0, 2 * (kInPlaceBytes - 1));
  exchange({.bytes = kInPlaceBytes});
  expectMoved(0, 2 * kInPlaceBytes, 2 * (kInPlaceBytes - 1));
}

TEST_F(GpuInPlaceTest, EitherEndMayHaveOrdinaryMemory) {
  constexpr size_t kBytes = 1 << 20;
  exchange({.bytes = kBytes, .registered = {true, false}});
  expectMoved(0, 2 * kBytes, 0);
  expectMoved(1, 2 * kBytes, 0);
}

// Staged data moves in place from and to the pinned memory, which adapters have registered only while it exists.
TEST_F(GpuInPlaceTest, PinnedMemoryIsRegisteredAsLongAsItLives) {
  constexpr size_t kBytes = 1 << 20;
  exchange({.bytes = 8, .registered = {false, false}});
  const int before = verbs_.resources();
  exchange({.bytes = kBytes, .registered = {false, false}});
  for (int rank = 0; rank < kRanks; ++rank) expectMoved(rank, 2 * kBytes, 16);
  EXPECT_GT(verbs_.resources(), before);
  for (auto& queue : queues_) queue.reset();
  EXPECT_EQ(verbs_.resources(), before);
}

class GpuOverTcpTest : public GpuInPlaceTest {
  const char* network() const override { return "socket"; }
};

TEST_F(GpuOverTcpTest, LandsInPinnedMemoryAndIsNotRegistered) {
  EXPECT_EQ(Memory(*this, 0, Bytes(100'000), true).handle(), nullptr);
  constexpr size_t kBytes = 1 << 20;
  exchange({.bytes = kBytes});
  for (int rank = 0; rank < kRanks; ++rank) {
    expectMoved(rank, 0, 2 * kBytes);
    EXPECT_GT(ranks_[static_cast<size_t>(rank)]->reach().dataMoved().received_in_place, 0u);
  }
}

TEST_F(GpuInPlaceTest, GpusCopyWhereAnAdapterTakesNoneOfTheirMemory) {
  constexpr size_t kBytes = 1 << 20;
  verbs_.device("a1").dmabufs = false;
  exchange({.bytes = kBytes});
  expectMoved(0, 0, 2 * kBytes);
  expectMoved(1, 2 * kBytes, 0);
}

TEST_F(GpuInPlaceTest, RegistrationGainsNothingWithoutDmabuf) {
  cuda_.fail("cuMemGetHandleForAddressRange", 801);
  EXPECT_EQ(Memory(*this, 0, Bytes(100'000), true).handle(), nullptr);
  exchange({.bytes = 100'000});
  expectMoved(0, 200'000, 0);  // from pinned memory
}

// No adapter takes a dma-buf; the module that finds the memory all the same is the test.
class GpuByPeermemTest : public GpuInPlaceTest {
 protected:
  const char* gpuMemory() const override { return "peermem"; }
  void SetUp() override {
    for (const char* const name : {"a0", "a1", "b0", "b1"}) verbs_.device(name).dmabufs = false;
    GpuInPlaceTest::SetUp();
  }
};

TEST_F(GpuByPeermemTest, RegisteredMemoryMovesByAdaptersAlone) {
  constexpr size_t kBytes = 1 << 20;
  verbs_.findGpuMemory([&](const void* address) { return cuda_.dataAt(address); });
  exchange({.bytes = kBytes});
  for (int rank = 0; rank < kRanks; ++rank) expectMoved(rank, 2 * kBytes, 0);
}

class GpuApartTest : public GpuInPlaceTest {
  const char* gpuMemory() const override { return "0"; }
};

TEST_F(GpuApartTest, RegistrationGainsNothing) {
  EXPECT_EQ(Memory(*this, 0, Bytes(100'000), true).handle(), nullptr);
}

// The module's folder decides.
TEST(AdapterWays, AreThoseOfTheMachine) {
  const test::TemporaryFolder sys;
  const auto ways = [&](const char* choice) { return AdapterWays::of(choice, sys.path().string()); };
  EXPECT_TRUE(ways("auto").dmabuf && !ways("auto").by_address);
  std::filesystem::create_directories(sys.path() / "module/nvidia_peermem");
  EXPECT_TRUE(ways("auto").dmabuf && ways("auto").by_address);
  EXPECT_TRUE(ways("dmabuf").dmabuf && !ways("dmabuf").by_address);
  EXPECT_TRUE(!ways("peermem").dmabuf && ways("peermem").by_address);
  EXPECT_FALSE(ways("0").dmabuf || ways("0").by_address);
}

TEST_F(GpuInPlaceTest, AnOldDriverHasNone) {
  for (const bool has_handles : {false, true}) {
    CudaApi api = driver_->api().value();
    if (has_handles) {
      api.flush_remote_writes = nullptr;
    } else {
      api.range_handle = nullptr;
    }
    const auto old = CudaDevice::open(api, 0).take();
    const Memory memory(*this, 0, Bytes(100'000), false);
    const Status status = adapterMemory(*old, memory.data(), 100'000, {.dmabuf = true}).status();
    EXPECT_EQ(status.code(), Code::kUnhandledCudaError) << status.toString();
  }
}

TEST_F(GpuInPlaceTest, ACopyThatFailsIsTheErrorOfItsRank) {
  verbs_.device("a1").dmabufs = false;
  const Memory from(*this, 0, Bytes(100'000), true), into(*this, 1, Bytes(100'000), true);
  cuda_.fail("cuMemcpyAsync", 700);
  onEveryRank(kRanks, [&](int rank) {
    Transfer transfer{.kind = Transfer::Send{from.data()}, .peer = 1 - rank, .bytes = 100'000};
    if (rank == 1) transfer.kind = Transfer::Receive{into.data()};
    Command command(ExchangeCommand{{transfer}});
    command.on_gpu = true;
    queues_[rank]->moveInPlace(command);
    const Status status = queues_[rank]->run(command);
    EXPECT_EQ(status.code(), rank == 0 ? Code::kUnhandledCudaError : Code::kRemoteError) << status.toString();
    EXPECT_NE(status.message().find("rank 0, a message to rank 1"), std::string::npos) << status.toString();
  });
}

TEST_F(GpuInPlaceTest, ACopyThatDoesNotEndEndsWithTheCommunicator) {
  verbs_.device("a1").dmabufs = false;
  const Memory from(*this, 0, Bytes(100'000), true);
  const GpuStream stream(cuda_, 0);
  Command command(ExchangeCommand{{{.kind = Transfer::Send{from.data()}, .peer = 1, .bytes = 100'000}}});
  command.on_gpu = true;
  queues_[0]->moveInPlace(command);
  const Memory into(*this, 1, Bytes(100'000), false);
  Command other(ExchangeCommand{{{.kind = Transfer::Receive{into.data()}, .peer = 0, .bytes = 100'000}}});
  other.on_gpu = true;
  const GpuStream other_stream(cuda_, 1);
  const int copies = cuda_.calls("cuMemcpyAsync");
  cuda_.slowCopies(kForEverUs);
  ASSERT_TRUE(queues_[1]->submit(std::move(other), other_stream.get()).ok());
  ASSERT_TRUE(queues_[0]->submit(std::move(command), stream.get()).ok());
  // The receiver's, which its stream will come to, and the sender's.
  while (cuda_.calls("cuMemcpyAsync") < copies + 2) std::this_thread::yield();
  ranks_[0]->abort();
  queues_[0]->drain();
  queues_[1]->drain();
  cuda_.slowCopies(0);
  EXPECT_EQ(ranks_[0]->asyncError().code(), Code::kInvalidUsage);
  EXPECT_EQ(ranks_[1]->asyncError().code(), Code::kRemoteError);
  // Before the memory goes: its stream is not destroyed before it is done.
  queues_[0].reset();
}

}  // namespace
}  // namespace horing::testing
