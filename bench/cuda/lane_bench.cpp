// The engine for GPUs on one GPU, compared with what that GPU can do in the same run. See bench/cuda/README.md.
#include <algorithm>

#include "cuda/gpu_ranks.h"
#include "cuda/kernels.h"
#include "engine/cuda/exchange_world.h"
#include "engine/cuda/queue_shape.h"

namespace horing::cuda_bench {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
// Blocks, queues and slots: as many and as large as the GPU has room for, or what a communicator takes whose ranks are threads.
enum class Room { kMost, kOfCommunicators };
constexpr int32_t kBlocksOfCommunicators = 32;  // the default of HORING_GPU_BLOCKS
// The limit of a wait, which then ends the program and says where.
constexpr uint64_t kTimeoutNs = 20'000'000'000;

// GB/s that the GPU's memory moves, reads and writes counted, for a copy of `bytes`.
double copyRate(size_t bytes) {
  const auto memory = Machine::memory(2 * bytes);
  std::byte* const from = must(memory->allocate(bytes));
  std::byte* const to = must(memory->allocate(bytes));
  Streams streams(1);
  const double us = streams.measure(20, [&] {
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, streams[0]), "cudaMemcpyAsync");
  });
  return 2.0 * static_cast<double>(bytes) / us / 1000;
}

int processors() {
  int count = 0;
  must(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
  return count;
}

void benchBody() {
  std::printf("\nThe data body alone, float32, a block per processor; share of cudaMemcpy's bandwidth\n");
  std::printf("%10s %12s %12s %8s %12s %8s\n", "bytes", "memcpy GB/s", "copy GB/s", "share", "a+b GB/s",
              "share");
  for (size_t bytes = kMiB; bytes <= 1024 * kMiB; bytes *= 4) {
    const auto memory = Machine::memory(3 * bytes);
    std::byte* const a = must(memory->allocate(bytes));
    std::byte* const b = must(memory->allocate(bytes));
    std::byte* const to = must(memory->allocate(bytes));
    Streams streams(1);
    const double limit = copyRate(bytes), size = static_cast<double>(bytes);
    const auto time = [&](const std::byte* second) {
      return streams.measure(
          20, [&] { launchFold(a, second, to, bytes / sizeof(float), processors(), streams[0]); });
    };
    const double copy = 2 * size / time(nullptr) / 1000, sum = 3 * size / time(b) / 1000;
    std::printf("%10zu %12.0f %12.0f %8.2f %12.0f %8.2f\n", bytes, limit, copy, copy / limit, sum,
                sum / limit);
  }
}

// As many parts as let every block of every rank be resident at once.
int32_t partsFor(int32_t ranks, int32_t lanes) {
  const int resident = must(Machine::gpu().mostResidentBlocks());
  return std::clamp(resident / (ranks * lanes), 1, cuda::kMaxParts);
}

int32_t lanesOf(const std::string& algorithm, Collective collective, const Shape& shape) {
  return static_cast<int32_t>(must(buildSchedule(algorithm, collective, shape, 0)).lanes.size());
}

test::GpuWorldOptions optionsFor(const std::string& algorithm, Collective collective, const Shape& shape,
                                 Room room) {
  test::GpuWorldOptions options;
  options.algorithm = algorithm;
  options.collective = collective;
  options.shape = shape;
  options.plan.timeout_ns = kTimeoutNs;
  options.plan.hosts_carry = false;
  options.plan.in_one_launch = findAlgorithm(algorithm)->reachesPeers();
  if (options.plan.in_one_launch) {
    options.plan.parts = room == Room::kMost ? cuda::kMaxParts : kBlocksOfCommunicators;
    return options;
  }
  const int32_t lanes = lanesOf(algorithm, collective, shape);
  options.plan.parts = partsFor(shape.ranks(), lanes);
  options.slots = static_cast<uint32_t>(options.plan.window) + 1;
  if (room == Room::kOfCommunicators) {
    const cuda::GpuQueues queues = cuda::gpuQueues(static_cast<size_t>(shape.ranks()), options.plan.window);
    // Rings: each lane of a rank has one queue to receive from.
    const size_t bytes_of_part =
        static_cast<size_t>(lanes) * (cuda::queueBytes(queues.shape) + cuda::kQueueCounterBytes);
    const auto spare_parts = static_cast<int32_t>(cuda::kGpuSpareQueueBytes / bytes_of_part);
    options.plan.parts = std::min(
        {options.plan.parts, queues.parts + spare_parts, std::max(kBlocksOfCommunicators / lanes, 1)});
    options.plan.slot_bytes = queues.shape.slot_bytes;
    options.slots = queues.shape.slots;
  }
  return options;
}

// Bytes that every rank reads and writes at least: its inputs once, its outputs once.
double leastBytes(Collective collective, size_t bytes, int ranks) {
  const double own = static_cast<double>(bytes) / ranks, all = static_cast<double>(bytes);
  return ranks * (collective == Collective::kAllReduce ? 2 * all : all + own);
}

void benchCollective(const std::string& algorithm, Collective collective, const Shape& shape, Room room) {
  const int ranks = shape.ranks();
  const size_t most = 256 * kMiB / sizeof(float);
  const test::GpuWorldOptions options = optionsFor(algorithm, collective, shape, room);
  GpuRanks gpu(options, most);
  const double limit = copyRate(256 * kMiB);
  std::printf(
      "\n%s %s, %d x %d ranks on one GPU, %d parts, slots of %u KiB%s; of the whole vector; limit: each "
      "input "
      "read and each output written once\n",
      algorithm.c_str(), collectiveName(collective), shape.groups, shape.members, options.plan.parts,
      options.plan.slot_bytes >> 10, room == Room::kOfCommunicators ? ", as a communicator's" : "");
  std::printf("%10s %10s %10s %10s\n", "bytes", "us", "algbw", "of limit");
  for (const size_t bytes :
       {size_t{1} << 10, size_t{1} << 14, size_t{1} << 18, 4 * kMiB, 64 * kMiB, 256 * kMiB}) {
    const size_t count =
        bytes / sizeof(float) / (collective == Collective::kAllReduce ? 1 : static_cast<size_t>(ranks));
    const auto calls = gpu.prepare(count);
    const double us = gpu.streams().measure(20, [&] { gpu.launch(calls); });
    gpu.checkOutcome();
    const double least_us = leastBytes(collective, bytes, ranks) / limit / 1000;
    std::printf("%10zu %10.1f %10.1f %10.2f\n", bytes, us, static_cast<double>(bytes) / us / 1000,
                least_us / us);
  }
}

// 8 bytes, in graphs of so many launches that the host's launches do not count.
void benchLatency(const char* algorithm) {
  constexpr int kLaunches = 100;
  GpuRanks gpu(optionsFor(algorithm, Collective::kAllReduce, {1, 2}, Room::kOfCommunicators), 1024);
  const auto calls = gpu.prepare(2);
  const double us = gpu.streams().measureInGraphs(
      kLaunches, [&](int rank) { gpu.launch(rank, calls[static_cast<size_t>(rank)]); });
  gpu.checkOutcome();
  std::printf("%s all_reduce of 8 bytes, 2 ranks, in graphs of %d: %.2f us each\n", algorithm, kLaunches, us);
}

std::vector<RingCall> ringByHand(GpuRanks& gpu, const test::GpuWorldOptions& options) {
  const int32_t ranks = options.shape.ranks();
  std::vector<RingCall> calls(static_cast<size_t>(ranks));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<cuda::Port> sends, receives;
    for (int32_t part = 0; part < options.plan.parts; ++part) {
      const cuda::Queue queue =
          must(cuda::makeQueue({options.slots, options.plan.slot_bytes}, gpu.memory(), gpu.memory()));
      sends.push_back(queue.send);
      receives.push_back(queue.receive);
    }
    const auto place = [&](const std::vector<cuda::Port>& ports) {
      std::byte* const at = must(gpu.memory().allocate(ports.size() * sizeof(cuda::Port)));
      must(gpu.memory().write(at, ports.data(), ports.size() * sizeof(cuda::Port)));
      return reinterpret_cast<cuda::Port*>(at);
    };
    RingCall& call = calls[static_cast<size_t>(rank)];
    call.to_ahead = place(sends);
    calls[static_cast<size_t>((rank + 1) % ranks)].from_behind = place(receives);
    call.input = gpu.input(rank);
    call.output = gpu.output(rank);
    call.rank = rank;
    call.ranks = ranks;
    call.window = options.plan.window;
  }
  return calls;
}

// The same steps, blocks, parts, slices and window for both, in graphs: a launch of the host takes longer the more parameters it has.
// Beside them ring, which has twice the blocks for as many parts.
void benchInterpreter(int ranks, Room room) {
  constexpr int kLaunches = 20;
  constexpr size_t kMostCount = 256 * kMiB / sizeof(float);
  const test::GpuWorldOptions serial_options =
      optionsFor("serial_ring", Collective::kAllReduce, {1, ranks}, room);
  const test::GpuWorldOptions ring_options = optionsFor("ring", Collective::kAllReduce, {1, ranks}, room);
  GpuRanks serial(serial_options, kMostCount), ring(ring_options, kMostCount);
  std::vector<RingCall> by_hand = ringByHand(serial, serial_options);
  std::printf(
      "\nserial_ring all_reduce, %d ranks, %d parts, slots of %u KiB: the interpreter beside a ring written "
      "by hand with the same body, in graphs of %d, in turns; and ring, %d parts on two blocks each\n",
      ranks, serial_options.plan.parts, serial_options.plan.slot_bytes >> 10, kLaunches,
      ring_options.plan.parts);
  std::printf("%10s %14s %14s %10s %10s %14s\n", "bytes", "interpreter us", "by hand us", "ratio", "more us",
              "ring us");
  const auto timeOf = [](GpuRanks& gpu, const std::vector<cuda::LaneCall>& calls) {
    const double us = gpu.streams().measureInGraphs(
        kLaunches, [&](int rank) { gpu.launch(rank, calls[static_cast<size_t>(rank)]); });
    gpu.checkOutcome();
    return us;
  };
  for (size_t bytes = 1024; bytes <= 256 * kMiB; bytes *= 4) {
    const auto calls = serial.prepare(bytes / sizeof(float));
    for (RingCall& call : by_hand) {
      call.count = bytes / sizeof(float);
      call.chunk = calls[0].sizes.block;
      call.part = calls[0].sizes.part;
      call.slicing = calls[0].slicing;
      call.slices = calls[0].slices;
      call.parts = calls[0].used_parts;
    }
    const double interpreted = timeOf(serial, calls);
    const double written = serial.streams().measureInGraphs(
        kLaunches, [&](int rank) { launchRing(by_hand[static_cast<size_t>(rank)], serial.streams()[rank]); });
    const double overlapped = timeOf(ring, ring.prepare(bytes / sizeof(float)));
    std::printf("%10zu %14.2f %14.2f %10.3f %10.2f %14.2f\n", bytes, interpreted, written,
                interpreted / written, interpreted - written, overlapped);
  }
}

// Two ranks send each other a message, with the queues and parts of a communicator. Limit: both read and written once, at the copy's
// bandwidth; through queues they are read and written twice.
void benchMessages() {
  const cuda::GpuQueues queues = cuda::gpuQueues(2, cuda::BoundPlanSettings().window);
  const int32_t blocks = std::min(kBlocksOfCommunicators, must(Machine::gpu().mostResidentBlocks()) / 2);
  const size_t most = 256 * kMiB;
  const auto memory = Machine::memory((size_t{1} << 30) + 4 * most);
  const PinnedMemory flags = must(PinnedMemory::allocate(Machine::device(), sizeof(uint32_t)));
  auto* const abort = reinterpret_cast<uint32_t*>(flags.data());
  *abort = 0;
  test::ExchangeWorld world({.ranks = 2,
                             .parts = cuda::exchangeParts(1, queues.parts, blocks),
                             .blocks = blocks,
                             .slot_bytes = queues.shape.slot_bytes,
                             .slots = queues.shape.slots,
                             .smallest_part_bytes = cuda::BoundExchangeSettings().smallest_part_bytes,
                             .timeout_ns = kTimeoutNs},
                            *memory, abort);
  must(world.made());
  std::byte *sent[2], *received[2];
  for (int rank = 0; rank < 2; ++rank) {
    sent[rank] = must(memory->allocate(most));
    received[rank] = must(memory->allocate(most));
  }
  const double limit = copyRate(most);
  Streams streams(2);
  std::printf("\nmessages between 2 ranks on one GPU, both ways at once, %d blocks each\n", blocks);
  std::printf("%10s %10s %10s %10s\n", "bytes", "us", "GB/s", "of limit");
  for (size_t bytes = 8; bytes <= most; bytes = bytes < 1024 ? 1024 : bytes * 16) {
    std::vector<cuda::ExchangeCall> calls;
    for (int rank = 0; rank < 2; ++rank) {
      world.send(rank, 1 - rank, {sent[rank], bytes});
      world.receive(rank, 1 - rank, {received[rank], bytes});
      calls.push_back(world.take(static_cast<size_t>(rank)).front());
    }
    const double us = streams.measure(20, [&] {
      for (size_t rank = 0; rank < 2; ++rank)
        must(Machine::gpu().launch(calls[rank], streams[static_cast<int>(rank)]));
    });
    for (size_t rank = 0; rank < 2; ++rank) must(world.outcome(rank));
    const double rate = static_cast<double>(bytes) / us / 1000;
    std::printf("%10zu %10.1f %10.1f %10.2f\n", bytes, us, rate, 4 * rate / limit);
  }
}

int run(const std::vector<std::string>& parts) {
  if (!Machine::hasGpu()) {
    std::printf("no GPU here\n");
    return 77;
  }
  must(cudaSetDevice(0), "cudaSetDevice");
  cudaDeviceProp properties;
  must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("%s, %d processors; blocks of %s resident at once: %d\n", properties.name,
              properties.multiProcessorCount, "any kernel", must(Machine::gpu().mostResidentBlocks()));
  const auto wants = [&](std::string_view part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (wants("body")) benchBody();
  if (wants("collectives")) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather})
      for (const Shape& shape : {Shape{1, 2}, Shape{1, 4}, Shape{1, 8}})
        for (const Room room : {Room::kOfCommunicators, Room::kMost})
          benchCollective("ring", collective, shape, room);
    for (const char* algorithm : {"ho_ring", "ho_direct", "direct"})
      benchCollective(algorithm, Collective::kAllReduce, {2, 4}, Room::kOfCommunicators);
  }
  if (wants("one_launch"))
    for (const auto& [algorithm, collective] : {std::pair{"peer_write", Collective::kAllReduce},
                                                {"peer_read", Collective::kReduceScatter},
                                                {"peer_write", Collective::kAllGather}})
      for (const int ranks : {2, 4, 8})
        for (const Room room : {Room::kOfCommunicators, Room::kMost})
          benchCollective(algorithm, collective, {1, ranks}, room);
  if (wants("latency"))
    for (const char* algorithm : {"ring", "serial_ring", "doubling", "one_shot"}) benchLatency(algorithm);
  if (wants("messages")) benchMessages();
  if (wants("interpreter"))
    for (const int ranks : {2, 4})
      for (const Room room : {Room::kOfCommunicators, Room::kMost}) benchInterpreter(ranks, room);
  return 0;
}

}  // namespace
}  // namespace horing::cuda_bench

int main(int argc, char** argv) {
  // Kernels that wait for each other need a queue of the hardware each; read when the driver starts.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return horing::cuda_bench::run({argv + 1, argv + argc});
}
