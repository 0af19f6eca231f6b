#include "emulated_kernels.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "../../sanitizer.h"
#include "emulated_block.h"
#include "engine/cuda/copy_kernel.h"
#include "engine/cuda/exchange_kernel.h"
#include "engine/cuda/lane_kernels.h"

namespace horing::test {

namespace {

constexpr uint32_t kThreads = 2;  // of each block

// All threads of all blocks at once.
void runAll(const Bodies& bodies) {
#if defined(HORING_TEST_TSAN)  // which does not see fibers switch stacks
  runAsThreads(bodies);
#else
  (void)runAsFibers(bodies, 1, UINT64_MAX);
#endif
}

template <class R>
void runLaunch(const cuda::LaneCalls& calls, const fake::Grid& grid) {
  std::vector<std::unique_ptr<EmulatedBlock>> blocks;
  Bodies bodies;
  for (int32_t rank = 0; rank < grid.z; ++rank)
    for (int32_t part = 0; part < grid.y; ++part)
      for (int32_t lane = 0; lane < grid.x; ++lane) {
        EmulatedBlock& block = *blocks.emplace_back(std::make_unique<EmulatedBlock>(kThreads));
        const cuda::BlockPlace place{lane, part, rank, grid.z};
        for (uint32_t thread = 0; thread < kThreads; ++thread)
          bodies.push_back([&calls, &block, place, thread] {
            EmulatedLaneThread self(block, thread);
            (void)cuda::runCalls<R>(calls, place, self);
          });
      }
  runAll(bodies);
}

// Blocks of one dimension; `run` is what a thread of block `number` does.
template <class Shared, class Run>
void runBlocks(int32_t count, const Run& run) {
  std::vector<std::unique_ptr<EmulatedBlockOf<Shared>>> blocks;
  Bodies bodies;
  for (int32_t number = 0; number < count; ++number) {
    EmulatedBlockOf<Shared>& block =
        *blocks.emplace_back(std::make_unique<EmulatedBlockOf<Shared>>(kThreads));
    for (uint32_t thread = 0; thread < kThreads; ++thread)
      bodies.push_back([&run, &block, number, thread] {
        EmulatedThreadOf<Shared> self(block, thread);
        run(number, self);
      });
  }
  runAll(bodies);
}

void runExchange(const cuda::ExchangeCall& call, const fake::Grid& grid) {
  runBlocks<cuda::ExchangeShared>(
      grid.x, [&](int32_t number, auto& self) { (void)cuda::ExchangeRun(call, number, self).run(); });
}

void runCopy(const cuda::CopyCall& call, const fake::Grid& grid) {
  runBlocks<cuda::CopyShared>(grid.x,
                              [&](int32_t number, auto& self) { cuda::CopyRun(call, number, self).run(); });
}

template <DataType kType, RedOp kOp>
constexpr auto kernel = runLaunch<cuda::RuleOf<kType, kOp>>;

struct Named {
  DataType type;
  RedOp op;
  void (*run)(const cuda::LaneCalls&, const fake::Grid&);
};
// What tests of the API use.
constexpr Named kKernels[] = {
    {DataType::kFloat32, RedOp::kSum, kernel<DataType::kFloat32, RedOp::kSum>},
    {DataType::kFloat32, RedOp::kMax, kernel<DataType::kFloat32, RedOp::kMax>},
    {DataType::kFloat32, RedOp::kAvg, kernel<DataType::kFloat32, RedOp::kAvg>},
    {DataType::kUint8, RedOp::kSum, kernel<DataType::kUint8, RedOp::kSum>},
    {DataType::kUint64, RedOp::kSum, kernel<DataType::kUint64, RedOp::kSum>},
    {DataType::kBfloat16, RedOp::kSum, kernel<DataType::kBfloat16, RedOp::kSum>},
};

bool isExchange(const char* name) {
  return std::string_view(name) == cuda::kExchangeKernel;
}
bool isCopy(const char* name) {
  return std::string_view(name) == cuda::kCopyKernel;
}

size_t parameterBytes(const char* name) {
  if (isCopy(name)) return sizeof(cuda::CopyCall);
  if (isExchange(name)) return sizeof(cuda::ExchangeCall);
  return std::string_view(name).starts_with("horing_lane_") ? sizeof(cuda::LaneCalls) : 0;
}

void run(const char* name, const void* parameter, const fake::Grid& grid) {
  if (isExchange(name)) return runExchange(*static_cast<const cuda::ExchangeCall*>(parameter), grid);
  if (isCopy(name)) return runCopy(*static_cast<const cuda::CopyCall*>(parameter), grid);
  for (const Named& each : kKernels)
    if (cuda::laneKernelName(each.type, each.op) == name)
      return each.run(*static_cast<const cuda::LaneCalls*>(parameter), grid);
  std::fprintf(stderr, "%s is not among the emulated kernels\n", name);
  std::abort();
}

constexpr fake::Kernels kEmulated = {parameterBytes, run};

}  // namespace

const fake::Kernels& emulatedKernels() {
  return kEmulated;
}

}  // namespace horing::test
