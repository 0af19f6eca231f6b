#include "cuda/driver.h"

#include <gtest/gtest.h>

#include <thread>

#include "fake_cuda/fake_cuda.h"
#include "fake_cuda/fake_gpu.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <type_traits>
// What driver.cpp and the fake driver state without the toolkit.
static_assert(CUDA_SUCCESS == 0 && CU_POINTER_ATTRIBUTE_MEMORY_TYPE == 2 &&
              CU_POINTER_ATTRIBUTE_CONTEXT == 1);
static_assert(CU_MEMORYTYPE_HOST == 1 && CU_MEMORYTYPE_DEVICE == 2);
static_assert(CU_POINTER_ATTRIBUTE_IS_MANAGED == 8 && CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9);
static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUpointer_attribute) == sizeof(int));
static_assert(std::is_same_v<CUdeviceptr, unsigned long long>);
static_assert(std::is_same_v<decltype(&cuPointerGetAttributes),
                             CUresult (*)(unsigned int, CUpointer_attribute*, void**, CUdeviceptr)>);

// Whether a function of cuda.h can be called as one of CudaApi: as many arguments, of the same sizes.
template <typename... Theirs, typename... Ours>
constexpr bool goTogether(CUresult (*)(Theirs...), int (*)(Ours...)) {
  if constexpr (sizeof...(Theirs) == sizeof...(Ours)) return ((sizeof(Theirs) == sizeof(Ours)) && ...);
  return false;
}
#define X(member, function, symbol, parameters) \
  static_assert(goTogether(decltype(&function){}, decltype(horing::CudaApi::member){}), symbol);
HORING_CUDA_API(X)
HORING_CUDA_API_IF_THERE(X)
#undef X
// What adapter_memory.cpp states.
static_assert(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED == 124 && CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD == 1);
static_assert(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS == 117 &&
              CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST == 1);
static_assert(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING == 118 &&
              CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER == 100);
static_assert(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX == 0 &&
              CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER == 100);
// What ipc.cpp states.
static_assert(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS == 1 && CU_IPC_HANDLE_SIZE == sizeof(horing::CudaIpcHandle));
static_assert(CUDA_ERROR_NOT_READY == horing::CudaApi::kNotReady && CU_STREAM_WAIT_VALUE_GEQ == 0);
static_assert(CU_MEMHOSTALLOC_PORTABLE == 1 && CU_MEMHOSTALLOC_DEVICEMAP == 2 &&
              CU_EVENT_DISABLE_TIMING == 2);
#endif

namespace horing {
namespace {

using test::FakeCuda;

constexpr MemoryPlace kOnHost{};

TEST(CudaDriver, IsNotThereUntilTheProcessLoadsIt) {
  EXPECT_EQ(CudaDriver::ofProcess(), nullptr);
  const FakeCuda fake;
  ASSERT_TRUE(fake.loaded());
  EXPECT_NE(CudaDriver::ofProcess(), nullptr);
}

TEST(CudaDriver, TellsDeviceFromManagedFromOtherMemory) {
  const FakeCuda fake;
  const auto driver = CudaDriver::ofProcess();
  ASSERT_NE(driver, nullptr);
  char memory[64] = {};
  fake.setDeviceMemory(memory, 32, 3);
  EXPECT_EQ(driver->placeOf(memory), (MemoryPlace{MemoryKind::kDevice, 3}));
  EXPECT_EQ(driver->placeOf(memory + 31), (MemoryPlace{MemoryKind::kDevice, 3}));
  EXPECT_EQ(driver->placeOf(memory + 32), kOnHost);
  fake.setManagedMemory(memory, 32, 1);
  EXPECT_EQ(driver->placeOf(memory), (MemoryPlace{MemoryKind::kManaged, 1}));
}

TEST(CudaDriver, TellsPinnedMemoryOfTheHost) {
  const FakeCuda fake;
  const auto driver = CudaDriver::ofProcess();
  ASSERT_NE(driver, nullptr);
  // On a separate thread: while a thread with contexts exists, the driver is not unloaded.
  std::thread([&] {
    const test::PinnedVector<char> pinned(fake, 0, 32);
    EXPECT_EQ(driver->placeOf(pinned.data()), (MemoryPlace{.is_pinned = true}));
  }).join();
  char memory[32] = {};
  for (const void* const other : {static_cast<const void*>(memory), static_cast<const void*>(nullptr)})
    EXPECT_EQ(driver->placeOf(other), kOnHost);
  fake.setManagedMemory(memory, sizeof memory, 1);
  EXPECT_FALSE(driver->placeOf(memory).is_pinned);
  fake.setDeviceMemory(memory, sizeof memory, 1);
  EXPECT_FALSE(driver->placeOf(memory).is_pinned);
}

TEST(CudaDriver, TellsTheContextOfAGpusMemory) {
  const FakeCuda fake;
  const auto driver = CudaDriver::ofProcess();
  ASSERT_NE(driver, nullptr);
  // On a separate thread, as above.
  std::thread([&] {
    const test::ForeignMemory foreign(fake, 2, 32);
    const test::GpuVector<char> own(fake, 2, {1});
    const MemoryPlace there = driver->placeOf(foreign.data()), here = driver->placeOf(own.data());
    EXPECT_EQ(there, (MemoryPlace{MemoryKind::kDevice, 2, fake.context(2, false)}));
    EXPECT_NE(here.context, nullptr);
    EXPECT_NE(here, there);
    EXPECT_TRUE(here.isWith(there));
    EXPECT_FALSE(here.isWith(kOnHost));
  }).join();
  char memory[32] = {};
  fake.setDeviceMemory(memory, sizeof memory, 2);
  EXPECT_EQ(driver->placeOf(memory).context, nullptr);
}

TEST(CudaDriverOfProcess, FindsADriverThatComesLater) {
  CudaDriverOfProcess of_process;
  char memory[64] = {};
  EXPECT_EQ(of_process.driver(), nullptr);
  const FakeCuda fake;
  fake.setDeviceMemory(memory, sizeof memory, 0);
  EXPECT_EQ(of_process.driver()->placeOf(memory), (MemoryPlace{MemoryKind::kDevice, 0}));
  EXPECT_EQ(of_process.driver()->placeOf(nullptr), kOnHost);
}

TEST(CudaDriverOfProcess, KeepsTheDriverThatItFound) {
  CudaDriverOfProcess of_process;
  char memory[64] = {};
  {
    const FakeCuda fake;
    fake.setDeviceMemory(memory, sizeof memory, 5);
    EXPECT_EQ(of_process.driver()->placeOf(memory), (MemoryPlace{MemoryKind::kDevice, 5}));
  }
  EXPECT_EQ(of_process.driver()->placeOf(memory), (MemoryPlace{MemoryKind::kDevice, 5}));
}

}  // namespace
}  // namespace horing
