// The kernels on a GPU, several ranks on one: the same bits as the host engine. Skips, visibly, where there is no GPU.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "collective_case.h"
#include "cuda/driver.h"
#include "engine/cuda/copy_kernel.h"
#include "engine/cuda/device_memory.h"
#include "engine/cuda/lane_gpu.h"
#include "exchange_world.h"
#include "gpu_world.h"
#include "world.h"

namespace horing {
namespace {

using test::Buffers;
using test::Case;
using test::text;

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)
#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

// Kernels that wait for each other need a queue of the hardware each; read when the driver starts.
[[maybe_unused]] const int queues_set = ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

// GPU 0 of the machine.
class Machine {
 public:
  static std::shared_ptr<const CudaDevice> gpu() {
    static Machine machine;
    return machine.gpu_;
  }

 private:
  Machine() : driver_(CudaDriver::load()) {
    if (!driver_.ok() || !driver_.value()->api().ok()) return;
    const CudaApi& api = driver_.value()->api().value();
    int count = 0;
    if (api.init(0) != CudaApi::kSuccess || api.device_count(&count) != CudaApi::kSuccess || count == 0)
      return;
    auto opened = CudaDevice::open(api, 0);
    if (opened.ok()) gpu_ = opened.take();
  }
  Result<std::unique_ptr<CudaDriver>> driver_;
  std::shared_ptr<const CudaDevice> gpu_;
};

// All ranks of a collective on GPU 0, each on a stream.
class GpuRanks {
 public:
  static constexpr auto kDeadline = std::chrono::seconds(20);
  // Of kernels, also while the host is held up by the driver.
  static constexpr uint64_t kTimeoutNs = 15'000'000'000;

  explicit GpuRanks(const Case& c)
      : case_(c),
        gpu_(Machine::gpu()),
        memory_(cuda::makeDeviceMemory(Machine::gpu(), size_t{256} << 20).take()),
        buffers_(cuda::makeDeviceMemory(Machine::gpu(), size_t{64} << 20).take()),
        flags_(PinnedMemory::allocate(Machine::gpu(), sizeof(uint32_t)).take()),
        world_(test::GpuWorld::make({c.algorithm,
                                     c.collective,
                                     c.shape,
                                     0,
                                     {c.parts, c.window, c.slot_bytes, 4096, kTimeoutNs, c.isOneLaunch()},
                                     static_cast<uint32_t>(c.window) + 1},
                                    *memory_, flag())
                   .take()) {
    setFlag(0);
    streams_.resize(static_cast<size_t>(ranks()));
    for (cudaStream_t& stream : streams_)
      EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  GpuRanks(const GpuRanks&) = delete;
  GpuRanks& operator=(const GpuRanks&) = delete;
  ~GpuRanks() {
    for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
  }

  int32_t ranks() const { return world_->ranks(); }
  test::GpuWorld& world() { return *world_; }
  cudaStream_t stream(int32_t rank) { return streams_[static_cast<size_t>(rank)]; }
  uint32_t* flag() { return reinterpret_cast<uint32_t*>(flags_.data()); }
  void setFlag(uint32_t value) { __atomic_store_n(flag(), value, __ATOMIC_RELAXED); }
  cuda::LaneGpu& gpu() { return gpu_; }
  Status launch(int32_t p, const cuda::LaneCall& call, DataType type, RedOp op) {
    return launch(p, std::vector{call}, type, op);
  }
  // Of all ranks at once, or of one, on the stream of `p`.
  Status launch(int32_t p, const std::vector<cuda::LaneCall>& of_ranks, DataType type, RedOp op) {
    cuda::LaneCalls calls;
    for (const cuda::LaneCall& call : of_ranks) calls.each[calls.count++] = call;
    return gpu_.launch(calls, {world_->plan(p).lanes(), of_ranks[0].used_parts, calls.count}, type, op,
                       stream(p));
  }

  // Inputs on the GPU, `shift` bytes off the alignment, and outputs; what each rank would call.
  std::vector<Call> upload(Buffers& from, DataType type, RedOp op, size_t count, size_t shift) {
    std::vector<Call> calls = from.calls(type, op, count);
    for (size_t p = 0; p < calls.size(); ++p) {
      calls[p].input = place(from.inputs[p], shift);
      calls[p].output = place(from.outputs[p], shift);
      if (calls[p].factor_at) calls[p].factor_at = calls[p].input;
    }
    return calls;
  }
  void download(const std::vector<Call>& calls, Buffers& to) {
    for (size_t p = 0; p < calls.size(); ++p)
      if (const size_t bytes = to.outputs[p].size(); bytes > 0) {
        EXPECT_TRUE(buffers_->read(to.outputs[p].data(), calls[p].output, bytes).ok());
      }
  }

  // Launches every rank's kernel.
  void launchAll(const std::vector<Call>& calls) {
    std::vector<cuda::LaneCall> ready;
    int blocks = 0;
    for (int32_t p = 0; p < ranks(); ++p) {
      auto call = world_->plan(p).prepare(calls[static_cast<size_t>(p)]);
      ASSERT_TRUE(call.ok()) << call.status().toString();
      blocks += world_->plan(p).lanes() * call.value().used_parts;
      ready.push_back(call.take());
    }
    // Also loads the kernel, which must not happen while another waits for it.
    auto resident = gpu_.mostResidentBlocks();
    ASSERT_TRUE(resident.ok()) << resident.status().toString();
    ASSERT_LE(blocks, resident.value()) << text(case_);
    if (world_->isOneLaunch()) {
      const Status status = launch(0, ready, calls[0].type, calls[0].op);
      ASSERT_TRUE(status.ok()) << status.toString();
      return;
    }
    for (int32_t p = 0; p < ranks(); ++p) {
      const Status status = launch(p, ready[static_cast<size_t>(p)], calls[0].type, calls[0].op);
      ASSERT_TRUE(status.ok()) << status.toString();
    }
  }

  // Waits until all kernels have ended; at the deadline they are aborted. False if they were.
  bool finish() {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    bool in_time = true;
    for (const cudaStream_t stream : streams_) {
      while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        if (std::chrono::steady_clock::now() > deadline) {
          in_time = false;
          setFlag(1);
        }
        std::this_thread::yield();
      }
      EXPECT_CUDA(cudaStreamSynchronize(stream));
    }
    return in_time;
  }

  void expectTheHostsBits(size_t count, DataType type, RedOp op, size_t shift = 0) {
    Buffers got(case_, type, count), expected(case_, type, count);
    const std::vector<Call> calls = upload(got, type, op, count, shift);
    launchAll(calls);
    const bool in_time = finish();
    for (int32_t p = 0; p < ranks(); ++p)
      ASSERT_TRUE(world_->plan(p).outcome().ok())
          << text(case_) << ": " << world_->plan(p).outcome().toString();
    ASSERT_TRUE(in_time) << text(case_) << " hangs";
    download(calls, got);
    test::expectHostResults(case_, expected, type, op, count);
    for (size_t p = 0; p < got.outputs.size(); ++p)
      ASSERT_TRUE(got.outputs[p] == expected.outputs[p])
          << text(case_) << ", count " << count << " of " << dataTypeName(type) << ' ' << redOpName(op)
          << ", shift " << shift << ", position " << p;
  }

 private:
  std::byte* place(const std::vector<std::byte>& bytes, size_t shift) {
    auto at = buffers_->allocate(bytes.size() + shift + 1);
    EXPECT_TRUE(at.ok()) << at.status().toString();
    if (!bytes.empty()) {
      EXPECT_TRUE(buffers_->write(at.value() + shift, bytes.data(), bytes.size()).ok());
    }
    return at.value() + shift;
  }

  Case case_;
  cuda::LaneGpu gpu_;
  std::unique_ptr<cuda::Memory> memory_;
  std::unique_ptr<cuda::Memory> buffers_;
  PinnedMemory flags_;
  std::unique_ptr<test::GpuWorld> world_;
  std::vector<cudaStream_t> streams_;
};

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!Machine::gpu()) GTEST_SKIP() << "no GPU here";
  }
};

constexpr uint32_t kSlot = 8192;

TEST_F(Gpu, GivesTheBitsOfTheHostEngineForEveryTypeAndOperation) {
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kRedOps; ++op) {
      if (!hasRedOp(static_cast<DataType>(type), static_cast<RedOp>(op))) continue;
      GpuRanks ranks({"direct", Collective::kAllReduce, {1, 4}, 2, 4, kSlot});
      ranks.expectTheHostsBits(50001, static_cast<DataType>(type), static_cast<RedOp>(op));
    }
}

TEST_F(Gpu, GivesThemForEveryAlgorithm) {
  for (Case c : test::everyAlgorithm({{1, 2}, {2, 2}, {2, 3}})) {
    c.slot_bytes = kSlot;
    c.parts = 2;
    GpuRanks ranks(c);
    for (const size_t count : {0, 1, 20011}) ranks.expectTheHostsBits(count, DataType::kFloat32, RedOp::kSum);
  }
}

TEST_F(Gpu, TakesBuffersAtAnyElement) {
  GpuRanks ranks({"ho_ring", Collective::kAllReduce, {2, 2}, 2, 4, kSlot});
  for (const size_t shift : {2, 6, 16})
    ranks.expectTheHostsBits(30001, DataType::kBfloat16, RedOp::kSum, shift);
}

TEST_F(Gpu, RunsAgainAndAgain) {
  GpuRanks ranks({"ring", Collective::kAllReduce, {1, 4}, 4, 4, kSlot});
  for (int round = 0; round < 50; ++round)
    ranks.expectTheHostsBits(static_cast<size_t>(1 + 977 * round), DataType::kFloat32, RedOp::kSum);
}

// Every rank's launch is captured into a graph and replayed: no call of the host in between.
TEST_F(Gpu, ReplaysAGraph) {
  const Case c{"ho_ring", Collective::kAllReduce, {2, 2}, 2, 4, kSlot};
  constexpr size_t kCount = 40000;
  constexpr int kReplays = 20;
  GpuRanks ranks(c);
  Buffers got(c, DataType::kInt32, kCount), expected(c, DataType::kInt32, kCount);
  const std::vector<Call> calls = ranks.upload(got, DataType::kInt32, RedOp::kSum, kCount, 0);
  // Looks all kernels up, which loads them.
  ASSERT_TRUE(ranks.gpu().mostResidentBlocks().ok());
  std::vector<cudaGraphExec_t> graphs(static_cast<size_t>(ranks.ranks()));
  for (int32_t p = 0; p < ranks.ranks(); ++p) {
    cudaGraph_t graph;
    ASSERT_CUDA(cudaStreamBeginCapture(ranks.stream(p), cudaStreamCaptureModeThreadLocal));
    const auto ready = ranks.world().plan(p).prepare(calls[static_cast<size_t>(p)]);
    ASSERT_TRUE(ranks.launch(p, ready.value(), DataType::kInt32, RedOp::kSum).ok());
    ASSERT_CUDA(cudaStreamEndCapture(ranks.stream(p), &graph));
    ASSERT_CUDA(cudaGraphInstantiate(&graphs[static_cast<size_t>(p)], graph, 0));
    ASSERT_CUDA(cudaGraphDestroy(graph));
    // Before one of them runs, since it waits for the others.
    ASSERT_CUDA(cudaGraphUpload(graphs[static_cast<size_t>(p)], ranks.stream(p)));
    ASSERT_CUDA(cudaStreamSynchronize(ranks.stream(p)));
  }
  for (int replay = 0; replay < kReplays; ++replay)
    for (int32_t p = 0; p < ranks.ranks(); ++p)
      ASSERT_CUDA(cudaGraphLaunch(graphs[static_cast<size_t>(p)], ranks.stream(p)));
  ASSERT_TRUE(ranks.finish());
  ranks.download(calls, got);
  test::expectHostResults(c, expected, DataType::kInt32, RedOp::kSum, kCount);
  for (size_t p = 0; p < got.outputs.size(); ++p) ASSERT_TRUE(got.outputs[p] == expected.outputs[p]);
  for (const cudaGraphExec_t graph : graphs) EXPECT_CUDA(cudaGraphExecDestroy(graph));
}

// Each of three ranks sends to both others repeatedly, by kernels on its own stream.
TEST_F(Gpu, CarriesMessages) {
  constexpr size_t kRanks = 3;
  const auto memory = cuda::makeDeviceMemory(Machine::gpu(), size_t{128} << 20).take();
  const PinnedMemory flags = PinnedMemory::allocate(Machine::gpu(), sizeof(uint32_t)).take();
  auto* const abort = reinterpret_cast<uint32_t*>(flags.data());
  *abort = 0;
  test::ExchangeWorld world({.ranks = kRanks,
                             .parts = 4,
                             .blocks = 8,
                             .slot_bytes = kSlot,
                             .slots = 9,
                             .smallest_part_bytes = 16384,
                             .timeout_ns = GpuRanks::kTimeoutNs},
                            *memory, abort);
  ASSERT_TRUE(world.made().ok()) << world.made().toString();
  cuda::LaneGpu gpu(Machine::gpu());
  ASSERT_TRUE(gpu.mostResidentBlocks().ok());  // loads all kernels
  std::vector<cudaStream_t> streams(kRanks);
  for (cudaStream_t& stream : streams) ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  struct Sent {
    std::vector<std::byte> data;
    std::byte* received;
  };
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4099}, size_t{100'000}, size_t{3'000'004}}) {
    const size_t used = memory->used();
    std::vector<Sent> all;
    for (int from = 0; from < static_cast<int>(kRanks); ++from)
      for (int to = 0; to < static_cast<int>(kRanks); ++to) {
        if (from == to) continue;
        // Sent from memory aligned to 4 bytes, received into unaligned memory.
        const Sent& sent = all.emplace_back(Sent{test::messageOf(from, to, 0, bytes), nullptr});
        std::byte* const source = memory->allocate(bytes + 4).take() + 4;
        all.back().received = memory->allocate(bytes + 1).take() + 1;
        ASSERT_TRUE(bytes == 0 || memory->write(source, sent.data.data(), bytes).ok());
        world.send(from, to, {source, bytes});
        world.receive(to, from, {sent.received, bytes});
      }
    for (size_t rank = 0; rank < kRanks; ++rank)
      for (const cuda::ExchangeCall& call : world.take(rank))
        ASSERT_TRUE(gpu.launch(call, streams[rank]).ok());
    for (const cudaStream_t stream : streams) ASSERT_CUDA(cudaStreamSynchronize(stream));
    for (size_t rank = 0; rank < kRanks; ++rank)
      ASSERT_TRUE(world.outcome(rank).ok()) << world.outcome(rank).toString();
    for (const Sent& sent : all) {
      std::vector<std::byte> received(bytes);
      ASSERT_TRUE(bytes == 0 || memory->read(received.data(), sent.received, bytes).ok());
      ASSERT_TRUE(received == sent.data) << bytes << " bytes";
    }
    ASSERT_TRUE(memory->rewind(used).ok());
  }
  for (const cudaStream_t stream : streams) EXPECT_CUDA(cudaStreamDestroy(stream));
}

// The copies that a host asks for while the kernel runs: out of the GPU's memory and back into other, by several kernels in a row, with no
// call of the driver meanwhile.
TEST_F(Gpu, CopiesWhatTheHostAsksFor) {
  constexpr size_t kBytes = (512 << 10) + 5, kShift = 3;
  constexpr uint32_t kKernels = 3;
  const auto pinned = PinnedMemory::allocate(Machine::gpu(), 4096 + kBytes).take();
  struct Shared {
    cuda::CopyCount posted, done[cuda::kCopyBlocks];
    cuda::CopyRequest request;
    alignas(64) uint32_t reached, ended;
  };
  static_assert(sizeof(Shared) <= 4096);
  auto& shared = *new (pinned.data()) Shared{};
  std::byte* const bounce = pinned.data() + 4096;
  std::vector<std::byte> values(kBytes), result(kBytes);
  for (size_t i = 0; i < kBytes; ++i) values[i] = static_cast<std::byte>(i * 7 + i / 251);
  std::byte *from = nullptr, *to = nullptr;
  ASSERT_CUDA(cudaMalloc(&from, kBytes + kShift));
  ASSERT_CUDA(cudaMalloc(&to, kBytes + kShift));
  ASSERT_CUDA(cudaMemcpy(from, values.data(), kBytes, cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemset(to, 0, kBytes + kShift));
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cuda::LaneGpu gpu(Machine::gpu());
  cuda::CopyCall call;
  call.posted = &shared.posted;
  call.done = shared.done;
  call.requests = &shared.request;
  call.blocks = cuda::kCopyBlocks;
  call.reached = &shared.reached;
  call.ended = &shared.ended;
  for (call.last = 1; call.last <= kKernels; ++call.last) {
    const Status launched = gpu.launch(call, stream);
    ASSERT_TRUE(launched.ok()) << launched.toString();
  }
  bool in_time = true;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto copy = [&](std::byte* target, const std::byte* source) {
    shared.request = {target, source, kBytes};
    const uint64_t count = shared.posted.value + 1;
    cuda::storeRelease(&shared.posted.value, count);
    for (const cuda::CopyCount& done : shared.done)
      while (in_time && cuda::loadAcquire(&done.value) < count)
        in_time = std::chrono::steady_clock::now() < deadline;
  };
  for (uint32_t kernel = 1; kernel <= kKernels; ++kernel) {
    std::fill_n(bounce, kBytes, std::byte{0});
    copy(bounce, from);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), bounce)) << kernel;
    copy(to + kShift, bounce);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    cuda::storeFlag(&shared.reached, kernel);
  }
  cuda::storeFlag(&shared.ended, 1);
  EXPECT_TRUE(in_time);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaMemcpy(result.data(), to + kShift, kBytes, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(result == values);
  EXPECT_CUDA(cudaStreamDestroy(stream));
  EXPECT_CUDA(cudaFree(from));
  EXPECT_CUDA(cudaFree(to));
}

TEST_F(Gpu, EndsAKernelWhosePeerNeverComes) {
  const Case c{"ring", Collective::kAllReduce, {1, 2}, 1, 4, kSlot};
  GpuRanks ranks(c);
  Buffers buffers(c, DataType::kFloat32, 1000);
  const std::vector<Call> calls = ranks.upload(buffers, DataType::kFloat32, RedOp::kSum, 1000, 0);
  const auto ready = ranks.world().plan(0).prepare(calls[0]);
  ASSERT_TRUE(ranks.launch(0, ready.value(), DataType::kFloat32, RedOp::kSum).ok());
  EXPECT_EQ(cudaStreamQuery(ranks.stream(0)), cudaErrorNotReady);
  ranks.setFlag(1);
  ASSERT_TRUE(ranks.finish()) << "the kernel did not see the flag";
  EXPECT_EQ(ranks.world().plan(0).outcome().code(), Code::kRemoteError);
  // The stream is usable again.
  EXPECT_CUDA(cudaMemsetAsync(calls[0].output, 0, 16, ranks.stream(0)));
  EXPECT_CUDA(cudaStreamSynchronize(ranks.stream(0)));
}

}  // namespace
}  // namespace horing
