// Messages between GPU memory and host memory, piece by piece: with a fake driver without a GPU (fake_cuda), whose memory crashes
// host accesses.
#include "comm/gpu/bounce_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "comm/gpu/kernel_copier.h"
#include "cuda/driver.h"
#include "emulated_kernels.h"
#include "fake_cuda/fake_gpu.h"

namespace horing {
namespace {

using test::FakeCuda;
using test::GpuStream;
using test::GpuVector;
using Bytes = std::vector<uint8_t>;

constexpr int kRanks = 4;
constexpr size_t kSlotBytes = 65536;
constexpr size_t kMostFlows = 40;
constexpr int64_t kLongMs = 600'000, kForEverUs = std::numeric_limits<int64_t>::max();

Bytes pattern(size_t bytes, size_t seed) {
  Bytes values(bytes);
  for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed * 31);
  return values;
}

class BounceBuffersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
    driver_ = CudaDriver::ofProcess();
    ASSERT_TRUE(driver_ && driver_->api().ok());
    gpu_ = CudaDevice::open(driver_->api().value(), 0).take();
  }
  void TearDown() override {
    cuda_.fail(nullptr, 0);
    cuda_.slowCopies(0);
  }
  std::unique_ptr<BounceBuffers> make(int64_t timeout_ms = kLongMs) {
    auto buffers = std::make_unique<BounceBuffers>(gpu_, kRanks);
    buffers->use(nullptr, timeout_ms);
    EXPECT_TRUE(buffers->reserve().ok());
    return buffers;
  }
  static std::byte* bytesOf(const GpuVector<uint8_t>& memory) {
    return reinterpret_cast<std::byte*>(memory.data());
  }

  // A message of one flow, a slot at a time, from byte `offset` on.
  struct Message {
    size_t flow;
    std::byte* gpu;
    Bytes host;
    bool reads;
    size_t offset = 0;
    // The rest of the slot, or nothing for now.
    Result<size_t> move(BounceBuffers& buffers) {
      const size_t left = host.size() - offset, bytes = std::min(left, kSlotBytes - offset % kSlotBytes);
      auto* const at = reinterpret_cast<std::byte*>(host.data()) + offset;
      auto moved = reads ? buffers.tryRead(flow, at, gpu + offset, bytes, left)
                         : buffers.tryWrite(flow, gpu + offset, at, bytes, left);
      if (moved.ok()) offset += moved.value();
      return moved;
    }
    bool finished() const { return offset == host.size(); }
  };
  // All pieces, in turn.
  static Status moveAll(BounceBuffers& buffers, std::vector<Message>& messages) {
    for (bool finished = false; !finished;) {
      finished = true;
      bool moved_any = false;
      for (Message& message : messages) {
        if (message.finished()) continue;
        HORING_ASSIGN(const size_t moved, message.move(buffers));
        moved_any = moved_any || moved > 0;
        finished = finished && message.finished();
      }
      if (!moved_any) std::this_thread::yield();
    }
    return {};
  }
  static Status settle(BounceBuffers& buffers, const std::vector<Message>& messages) {
    for (const Message& message : messages)
      for (bool settled = false; !settled; std::this_thread::yield()) {
        HORING_ASSIGN(settled, buffers.trySettle(message.flow));
      }
    return {};
  }

  const FakeCuda cuda_;
  std::unique_ptr<CudaDriver> driver_;
  std::shared_ptr<const CudaDevice> gpu_;
};

// Who copies: the driver, or a kernel.
enum class By { kDriver, kKernel };
void PrintTo(By by, std::ostream* out) {
  *out << (by == By::kDriver ? "driver" : "kernel");
}

class BounceBuffersBy : public BounceBuffersTest, public ::testing::WithParamInterface<By> {
 protected:
  void SetUp() override {
    BounceBuffersTest::SetUp();
    if (IsSkipped() || GetParam() == By::kDriver) return;
    cuda_.setKernels(&test::emulatedKernels());
    kernel_ = KernelCopier::create(gpu_, 2 * kMostFlows).take();
    stream_ = std::make_unique<GpuStream>(cuda_, 0);
    launch();
  }
  void TearDown() override {
    if (kernel_) end();
    kernel_.reset();
    stream_.reset();
    cuda_.setKernels(nullptr);
    BounceBuffersTest::TearDown();
  }
  void launch() { ASSERT_TRUE(kernel_->launch(&reached_, ++last_, &ended_, stream_->get()).ok()); }
  void end() {
    cuda::storeFlag(&reached_, last_);
    stream_->synchronize();
  }
  std::unique_ptr<BounceBuffers> make(int64_t timeout_ms = kLongMs) {
    auto buffers = BounceBuffersTest::make(timeout_ms);
    buffers->use(kernel_.get(), timeout_ms);
    return buffers;
  }

  std::unique_ptr<KernelCopier> kernel_;
  std::unique_ptr<GpuStream> stream_;
  uint32_t reached_ = 0, last_ = 0, ended_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Copiers, BounceBuffersBy, ::testing::Values(By::kDriver, By::kKernel));

TEST_F(BounceBuffersTest, CopyInPiecesThatAreLargerThanSlots) {
  constexpr size_t kBytes = (16 << 20) + 5;
  const Bytes sent = pattern(kBytes, 1);
  const GpuVector<uint8_t> from(cuda_, 0, sent), into(cuda_, 0, Bytes(kBytes));
  const auto buffers = make();
  const int copies = cuda_.calls("cuMemcpyAsync"), looks_at_streams = cuda_.calls("cuStreamQuery");
  buffers->begin(2);
  std::vector<Message> messages;
  messages.push_back({0, bytesOf(from), Bytes(kBytes), true});
  messages.push_back({1, bytesOf(into), pattern(kBytes, 2), false});
  ASSERT_TRUE(moveAll(*buffers, messages).ok());
  EXPECT_EQ(cuda_.calls("cuMemcpyAsync") - copies, 2 * (kBytes / BounceBuffers::kMostBytes + 1))
      << "all are under way";
  ASSERT_TRUE(settle(*buffers, messages).ok());
  EXPECT_EQ(cuda_.calls("cuStreamQuery"), looks_at_streams) << "it waits for no stream";
  EXPECT_EQ(messages[0].host, sent);
  EXPECT_EQ(into.read(), pattern(kBytes, 2));
  EXPECT_EQ(buffers->memoryBytes(), BounceBuffers::kPinnedBytes);
}

// More than four ranks can have, of sizes that end anywhere, by a GPU that takes its time.
TEST_P(BounceBuffersBy, KeepFlowsApart) {
  cuda_.slowCopies(200);
  const auto buffers = make();
  constexpr size_t kFlows = kMostFlows;
  for (const size_t group : {size_t{0}, size_t{1}}) {
    std::vector<std::unique_ptr<GpuVector<uint8_t>>> memory;
    std::vector<Message> messages;
    for (size_t flow = 0; flow < kFlows; ++flow) {
      const Bytes values = pattern(flow * 10'007 + group, flow + group);
      const bool reads = flow % 2 == group;
      memory.push_back(std::make_unique<GpuVector<uint8_t>>(cuda_, 0, reads ? values : Bytes(values.size())));
      messages.push_back({flow, bytesOf(*memory.back()), reads ? Bytes(values.size()) : values, reads});
    }
    buffers->begin(kFlows);
    ASSERT_TRUE(moveAll(*buffers, messages).ok());
    ASSERT_TRUE(settle(*buffers, messages).ok());
    for (const Message& message : messages) {
      const Bytes expected = pattern(message.host.size(), message.flow + group);
      EXPECT_EQ(message.reads ? message.host : memory[message.flow]->read(), expected) << message.flow;
    }
  }
  EXPECT_EQ(buffers->memoryBytes(), BounceBuffers::kPinnedBytes);
}

// Every third slot goes another way, and so does the end.
TEST_P(BounceBuffersBy, LeaveBytesOut) {
  constexpr size_t kSlots = 33, kBytes = kSlots * kSlotBytes;
  const Bytes values = pattern(kBytes, 3);
  const GpuVector<uint8_t> from(cuda_, 0, values), into(cuda_, 0, Bytes(kBytes));
  const auto buffers = make();
  buffers->begin(2);
  std::vector<Message> messages;
  messages.push_back({0, bytesOf(from), Bytes(kBytes), true});
  messages.push_back({1, bytesOf(into), values, false});
  Bytes expected = values;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    const size_t begin = slot * kSlotBytes, end = begin + kSlotBytes;
    const bool is_left_out = slot % 3 == 2;
    if (is_left_out) std::fill(expected.begin() + begin, expected.begin() + end, uint8_t{0});
    for (Message& message : messages) {
      if (is_left_out) message.offset = end;
      while (message.offset < end) ASSERT_TRUE(message.move(*buffers).ok());
    }
  }
  ASSERT_TRUE(settle(*buffers, messages).ok());
  EXPECT_EQ(messages[0].host, expected);
  EXPECT_EQ(into.read(), expected);
}

// Of a message that went another way from its middle on more was read than a shorter one has that begins there.
TEST_P(BounceBuffersBy, ReadNothingBehindAMessage) {
  constexpr size_t kBytes = 2 * BounceBuffers::kMostBytes, kBegin = BounceBuffers::kMostBytes - kSlotBytes;
  const Bytes values = pattern(kBytes, 5);
  const GpuVector<uint8_t> from(cuda_, 0, values);
  const auto buffers = make();
  buffers->begin(1);
  Message longer{0, bytesOf(from), Bytes(kBytes), true};
  while (longer.offset < kBegin) ASSERT_TRUE(longer.move(*buffers).ok());
  std::vector<Message> shorter;
  shorter.push_back({0, bytesOf(from) + kBegin, Bytes(kSlotBytes), true});
  ASSERT_TRUE(moveAll(*buffers, shorter).ok());
  ASSERT_TRUE(settle(*buffers, shorter).ok());
  EXPECT_TRUE(std::equal(shorter[0].host.begin(), shorter[0].host.end(), values.begin() + kBegin));
}

// Whatever fails, nothing is kept.
TEST_F(BounceBuffersTest, SayWhatTheDriverSays) {
  struct Failure {
    const char* function;
    int successes;
  };
  const GpuVector<uint8_t> memory(cuda_, 0, Bytes(3 << 20));
  const int live = cuda_.live();
  for (const auto& [function, successes] : {Failure{"cuMemHostAlloc", 0},
                                            {"cuStreamCreate", 0},
                                            {"cuStreamCreate", 1},
                                            {"cuEventCreate", 1},
                                            {"cuMemcpyAsync", 3},
                                            {"cuEventRecord", 3},
                                            {"cuEventQuery", 3}})
    for (const bool reads : {true, false}) {
      BounceBuffers buffers(gpu_, kRanks);
      buffers.use(nullptr, kLongMs);
      cuda_.fail(function, 700, successes);
      Status status = buffers.reserve();
      if (status.ok()) {
        buffers.begin(1);
        std::vector<Message> messages;
        messages.push_back({0, bytesOf(memory), Bytes(3 << 20), reads});
        status = moveAll(buffers, messages);
        if (status.ok()) status = settle(buffers, messages);
      }
      EXPECT_EQ(status.code(), Code::kUnhandledCudaError) << function << ": " << status.toString();
      cuda_.fail(nullptr, 0);
      buffers.awaitCopies();
    }
  EXPECT_EQ(cuda_.live(), live);
}

// Either end may be ordinary memory, or both; and both may be the GPU's.
TEST_P(BounceBuffersBy, CopyAtOnce) {
  constexpr size_t kBytes = BounceBuffers::kPinnedBytes + 1003;
  const Bytes values = pattern(kBytes, 6);
  const GpuVector<uint8_t> from(cuda_, 0, values), between(cuda_, 0, Bytes(kBytes)),
      into(cuda_, 0, Bytes(kBytes));
  Bytes host(kBytes), other(kBytes);
  const auto bytesOfHost = [](Bytes& memory) { return reinterpret_cast<std::byte*>(memory.data()); };
  const auto buffers = make();
  const auto copy = [&](std::byte* to, const std::byte* of, MemoryCopier::Ends ends) {
    EXPECT_TRUE(buffers->copy(to, of, kBytes, ends, [] { return Status(); }).ok());
  };
  copy(bytesOf(between), bytesOf(from), {});
  copy(bytesOfHost(host), bytesOf(between), {.to_is_far = false});
  copy(bytesOfHost(other), bytesOfHost(host), {.from_is_far = false, .to_is_far = false});
  copy(bytesOf(into), bytesOfHost(other), {.from_is_far = false});
  EXPECT_EQ(into.read(), values);
  cuda_.slowCopies(kForEverUs);
  if (kernel_) end();
  const Status ended = buffers->copy(bytesOf(into), bytesOf(from), 1000, {},
                                     [] { return makeStatus(Code::kInvalidUsage, "aborted"); });
  EXPECT_EQ(ended.code(), Code::kInvalidUsage);
  cuda_.slowCopies(0);
}

TEST_P(BounceBuffersBy, GiveACopyItsTime) {
  const GpuVector<uint8_t> memory(cuda_, 0, Bytes(1000));
  const auto buffers = make(50);
  if (kernel_) end();
  buffers->begin(1);
  cuda_.slowCopies(kForEverUs);
  Message message{0, bytesOf(memory), Bytes(1000), true};
  Result<size_t> moved = message.move(*buffers);
  while (moved.ok() && moved.value() == 0) moved = message.move(*buffers);
  EXPECT_EQ(moved.status().code(), Code::kTimeout);
  EXPECT_NE(moved.status().message().find("HORING_TIMEOUT_MS"), std::string::npos);
  cuda_.slowCopies(0);
  buffers->awaitCopies();
}

// To kernels that run one after the other; nothing of the rest is done after the end.
TEST_P(BounceBuffersBy, AreFilledByOneKernelAfterTheOther) {
  if (!kernel_) return;
  const Bytes values = pattern(3 << 20, 7);
  const GpuVector<uint8_t> from(cuda_, 0, values);
  const int launches = cuda_.launches(), copies = cuda_.calls("cuMemcpyAsync");
  const auto buffers = make();
  for (int round = 0; round < 3; ++round, launch()) {
    buffers->begin(1);
    std::vector<Message> messages;
    messages.push_back({0, bytesOf(from), Bytes(values.size()), true});
    ASSERT_TRUE(moveAll(*buffers, messages).ok());
    EXPECT_EQ(messages[0].host, values);
    EXPECT_FALSE(stream_->idle());
    end();
  }
  EXPECT_EQ(cuda_.launches() - launches, 3);
  EXPECT_EQ(cuda_.calls("cuMemcpyAsync"), copies);
  end();
  Message left{0, bytesOf(from), Bytes(values.size()), true};
  EXPECT_EQ(left.move(*buffers).value(), 0u);
  cuda::storeFlag(&ended_, 1);
  launch();
  stream_->synchronize();
  EXPECT_EQ(left.move(*buffers).value(), 0u);
}

// Which a GPU may still write.
TEST_F(BounceBuffersTest, AreNotFreedUnderACopy) {
  const GpuVector<uint8_t> memory(cuda_, 0, Bytes(1000));
  const int live = cuda_.live();
  std::thread release;
  {
    const auto buffers = make();
    buffers->begin(1);
    cuda_.slowCopies(kForEverUs);
    Message message{0, bytesOf(memory), Bytes(1000), true};
    EXPECT_EQ(message.move(*buffers).value(), 0u);
    buffers->awaitCopies();
    // When it is decided what to free: a stream of the fake driver is not destroyed before it is done.
    release = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      cuda_.slowCopies(0);
    });
  }
  release.join();
  EXPECT_EQ(cuda_.live(), live + 1) << "the pinned memory";
}

}  // namespace
}  // namespace horing
