// The speed of folding, compared with memcpy. bytes_per_second counts the bytes of the result, as for memcpy: a fold of
// two sources reads twice as much.
//
// Machines are noisy: compare lines of one run, with --benchmark_repetitions=9
// --benchmark_enable_random_interleaving.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/host/float_formats.h"
#include "engine/host/fold.h"

namespace horing {
namespace {

struct AlignedDelete {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Buffer = std::unique_ptr<std::byte, AlignedDelete>;

Buffer makeBuffer(size_t bytes) {
  return Buffer(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
}

// Small ordinary numbers: neither overflow nor subnormals.
Buffer makeOperand(DataType type, size_t bytes) {
  Buffer buffer = makeBuffer(bytes);
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(0.5f, 2.0f);
  for (size_t at = 0; at < bytes; at += dataTypeBytes(type)) {
    const float number = uniform(random);
    std::byte* to = buffer.get() + at;
    const uint16_t half = type == DataType::kFloat16 ? floatToFloat16(number) : floatToBfloat16(number);
    const uint8_t byte =
        type == DataType::kFloat8e4m3 ? floatToFloat8e4m3(number) : floatToFloat8e5m2(number);
    const double wide = static_cast<double>(number);
    switch (dataTypeBytes(type)) {
      case 1:
        std::memcpy(to, &byte, 1);
        break;
      case 2:
        std::memcpy(to, &half, 2);
        break;
      case 4:
        std::memcpy(to, &number, 4);
        break;
      default:
        std::memcpy(to, &wide, 8);
        break;
    }
  }
  return buffer;
}

void benchMemcpy(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const Buffer from = makeOperand(DataType::kFloat32, bytes);
  const Buffer to = makeOperand(DataType::kFloat32, bytes);
  for (auto _ : state) {
    std::memcpy(to.get(), from.get(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

struct FoldCase {
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  Simd simd = Simd::kPlain;
  int sources = 2;
  int destinations = 1;
  bool streams = false;  // stores past the caches
  size_t shift = 0;  // bytes from a page's begin to the destinations; large blocks of malloc() begin at 16
};

void benchFold(benchmark::State& state, const FoldCase& fold_case) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  std::vector<Buffer> operands;
  std::vector<const std::byte*> sources;
  for (int s = 0; s < fold_case.sources; ++s) {
    operands.push_back(makeOperand(fold_case.type, bytes));
    sources.push_back(operands.back().get());
  }
  const Buffer first = makeOperand(fold_case.type, bytes + fold_case.shift);
  const Buffer second = makeOperand(fold_case.type, bytes + fold_case.shift);
  FoldArguments arguments;
  arguments.sources = sources.data();
  arguments.source_count = fold_case.sources;
  std::byte* const destinations[] = {first.get() + fold_case.shift, second.get() + fold_case.shift};
  arguments.destinations = destinations;
  arguments.destination_count = fold_case.destinations;
  if (fold_case.streams) arguments.streams_from = 0;
  arguments.count = bytes / dataTypeBytes(fold_case.type);
  const FoldFunction fold = foldFunction(fold_case.type, fold_case.op, fold_case.simd);
  for (auto _ : state) {
    fold(arguments);
    if (fold_case.streams) streamFence();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void addFold(const FoldCase& fold_case, int64_t bytes) {
  std::string name = std::string("fold/") + simdName(fold_case.simd) + "/" + dataTypeName(fold_case.type) +
                     "/" + redOpName(fold_case.op) + "/k" + std::to_string(fold_case.sources) + "/d" +
                     std::to_string(fold_case.destinations) + (fold_case.streams ? "/past_caches" : "") +
                     (fold_case.shift > 0 ? "/shifted" : "");
  benchmark::internal::Benchmark* const added =
      benchmark::RegisterBenchmark(name.c_str(), benchFold, fold_case)->Arg(bytes);
  // One thread cannot ask for as much as memory has to give.
  if (fold_case.streams) added->Threads(2)->UseRealTime();
}

constexpr int64_t kSlice = 64 * 1024;
constexpr int64_t kBeyondCaches = 64 * 1024 * 1024;

const bool kRegistered = [] {
  const DataType types[] = {DataType::kFloat32,   DataType::kFloat64, DataType::kInt32,
                            DataType::kBfloat16,  DataType::kFloat16, DataType::kFloat8e4m3,
                            DataType::kFloat8e5m2};
  for (int64_t bytes : {kSlice, kBeyondCaches}) {
    benchmark::RegisterBenchmark("memcpy", benchMemcpy)->Arg(bytes);
    for (int simd = 0; simd <= static_cast<int>(detectSimd()); ++simd) {
      for (DataType type : types) addFold({.type = type, .simd = static_cast<Simd>(simd)}, bytes);
    }
  }
  const Simd best = detectSimd();
  for (DataType type : types) addFold({.type = type, .op = RedOp::kMax, .simd = best}, kSlice);
  addFold({.simd = best, .sources = 1}, kSlice);
  addFold({.simd = best, .sources = 1, .destinations = 2}, kSlice);
  addFold({.simd = best, .sources = 2, .destinations = 2}, kSlice);
  for (int sources : {2, 4, 8}) {
    addFold({.simd = best, .sources = sources, .streams = true}, kBeyondCaches);
    addFold({.simd = best, .sources = sources, .streams = true, .shift = 16}, kBeyondCaches);
  }
  for (int sources : {4, 16, 64, 1024}) addFold({.simd = best, .sources = sources}, kSlice);
  return true;
}();

}  // namespace
}  // namespace horing
