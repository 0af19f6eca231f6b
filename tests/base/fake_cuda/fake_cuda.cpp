// See fake_cuda.h. Answers as the driver does: an address that it does not know has attributes that are zero.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fake_stream.h"

namespace {

using horing::fake::Event;
using horing::fake::Queue;

constexpr int kDevices = 4;
enum Result { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201, kNotReady = 600 };

struct Context {
  int device;
};
struct Stream {
  Context* context;
  Queue queue;
};
// What a device's memory is to a program: [begin, begin + bytes). `data`: where its bytes are.
struct Range {
  size_t bytes;
  int device;
  bool is_managed;
  char* data;
};

// All that the driver knows. One for the process, as the driver is.
struct Driver {
  ~Driver() {
    for (auto& stream : default_streams) stream.reset();
    for (void* memory : host_memory) std::free(memory);
  }
  std::mutex mutex;
  Context contexts[kDevices] = {{0}, {1}, {2}, {3}};
  std::unique_ptr<Stream> default_streams[kDevices];
  std::map<uintptr_t, Range> ranges;
  std::set<void*> host_memory;
  std::vector<std::unique_ptr<Event>> ended_events;  // which a stream may still come to
  uintptr_t marked = 0;                              // of them, the one that a test chose
  std::string failing;                               // function
  int failing_with = 0;
  int successes_left = 0;
};
Driver driver;

thread_local std::vector<Context*> current;

// What a test wants this call to return; kSuccess: to do what it is for.
int wanted(const char* function) {
  const std::lock_guard lock(driver.mutex);
  if (driver.failing != function || driver.successes_left-- > 0) return kSuccess;
  return driver.failing_with;
}
int wantedWithContext(const char* function) {
  return current.empty() ? static_cast<int>(kInvalidContext) : wanted(function);
}

// Under the lock. The end: nobody's.
std::map<uintptr_t, Range>::iterator rangeOf(uintptr_t address) {
  auto next = driver.ranges.upper_bound(address);
  if (next == driver.ranges.begin()) return driver.ranges.end();
  --next;
  return address - next->first < next->second.bytes ? next : driver.ranges.end();
}

char* dataAt(unsigned long long address) {
  const std::lock_guard lock(driver.mutex);
  const auto range = rangeOf(address);
  if (range == driver.ranges.end()) return reinterpret_cast<char*>(address);
  return range->second.data + (address - range->first);
}

// NULL, and 1 and 2 of the runtime: the default one of the current context.
Stream* streamOf(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) > 2) return static_cast<Stream*>(stream);
  if (current.empty()) return nullptr;
  const std::lock_guard lock(driver.mutex);
  auto& own = driver.default_streams[current.back()->device];
  if (!own) own.reset(new Stream{current.back(), {}});
  return own.get();
}

int addTo(void* stream, const char* function, std::function<void()> work) {
  if (const int result = wanted(function)) return result;
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  own->queue.add(std::move(work));
  return kSuccess;
}

std::atomic_ref<uint32_t> wordAt(unsigned long long address) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(dataAt(address)));
}

void add(uintptr_t begin, const Range& range) {
  const std::lock_guard lock(driver.mutex);
  driver.ranges[begin] = range;
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE void fakeCudaMark(const void* begin, size_t bytes, int device, unsigned int is_managed) {
  {
    const std::lock_guard lock(driver.mutex);
    driver.ranges.erase(driver.marked);
    driver.marked = reinterpret_cast<uintptr_t>(begin);
  }
  add(reinterpret_cast<uintptr_t>(begin),
      {bytes, device, is_managed != 0, static_cast<char*>(const_cast<void*>(begin))});
}
FAKE void fakeCudaFail(const char* function, int with, int successes_before) {
  const std::lock_guard lock(driver.mutex);
  driver.failing = function ? function : "";
  driver.failing_with = with;
  driver.successes_left = successes_before;
}

FAKE int cuInit(unsigned int) {
  return wanted("cuInit");
}
FAKE int cuDeviceGetCount(int* count) {
  *count = kDevices;
  return kSuccess;
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int result = wanted("cuDevicePrimaryCtxRetain")) return result;
  if (device < 0 || device >= kDevices) return 101;  // CUDA_ERROR_INVALID_DEVICE
  *context = &driver.contexts[device];
  return kSuccess;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int) {
  return kSuccess;
}
FAKE int cuCtxPushCurrent_v2(void* context) {
  current.push_back(static_cast<Context*>(context));
  return kSuccess;
}
FAKE int cuCtxPopCurrent_v2(void** context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
FAKE int cuCtxGetDevice(int* device) {
  if (current.empty()) return kInvalidContext;
  *device = current.back()->device;
  return kSuccess;
}

FAKE int cuStreamCreate(void** stream, unsigned int) {
  if (const int result = wantedWithContext("cuStreamCreate")) return result;
  *stream = new Stream{current.back(), {}};
  return kSuccess;
}
FAKE int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return kSuccess;
}
FAKE int cuStreamGetCtx(void* stream, void** context) {
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  *context = own->context;
  return kSuccess;
}
FAKE int cuStreamIsCapturing(void*, int* status) {
  *status = wanted("cuStreamIsCapturing") ? 1 : 0;  // a test that wants it to fail wants a capture
  return kSuccess;
}
FAKE int cuStreamSynchronize(void* stream) {
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  own->queue.synchronize();
  return kSuccess;
}
FAKE int cuStreamQuery(void* stream) {
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  return own->queue.idle() ? kSuccess : kNotReady;
}
FAKE int cuStreamWaitEvent(void* stream, void* event, unsigned int) {
  auto* const waited = static_cast<Event*>(event);
  return addTo(stream, "cuStreamWaitEvent", [waited, latest = waited->latest()] { waited->await(latest); });
}
FAKE int cuStreamWriteValue32_v2(void* stream, unsigned long long at, uint32_t value, unsigned int) {
  return addTo(stream, "cuStreamWriteValue32", [=] { wordAt(at).store(value, std::memory_order_release); });
}
FAKE int cuStreamWaitValue32_v2(void* stream, unsigned long long at, uint32_t value, unsigned int flags) {
  if (flags != 0) return kInvalidValue;  // CU_STREAM_WAIT_VALUE_GEQ alone
  return addTo(stream, "cuStreamWaitValue32", [=] {
    while (static_cast<int32_t>(wordAt(at).load(std::memory_order_acquire) - value) < 0)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
}
FAKE int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return addTo(stream, "cuLaunchHostFunc", [=] { function(data); });
}

FAKE int cuEventCreate(void** event, unsigned int) {
  if (const int result = wantedWithContext("cuEventCreate")) return result;
  *event = new Event;
  return kSuccess;
}
FAKE int cuEventDestroy_v2(void* event) {
  const std::lock_guard lock(driver.mutex);
  driver.ended_events.emplace_back(static_cast<Event*>(event));
  return kSuccess;
}
FAKE int cuEventRecord(void* event, void* stream) {
  auto* const recorded = static_cast<Event*>(event);
  const uint64_t number = recorded->record();
  return addTo(stream, "cuEventRecord", [=] { recorded->complete(number); });
}
FAKE int cuEventQuery(void* event) {
  if (const int result = wanted("cuEventQuery")) return result;
  return static_cast<Event*>(event)->done() ? kSuccess : kNotReady;
}

// Memory that crashes whoever touches it but the driver.
FAKE int cuMemAlloc_v2(unsigned long long* at, size_t bytes) {
  if (const int result = wantedWithContext("cuMemAlloc")) return result;
  void* const forbidden =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (forbidden == MAP_FAILED) return kOutOfMemory;
  auto* const data = static_cast<char*>(std::malloc(bytes));
  if (!data) return kOutOfMemory;
  add(reinterpret_cast<uintptr_t>(forbidden), {bytes, current.back()->device, false, data});
  *at = reinterpret_cast<uintptr_t>(forbidden);
  return kSuccess;
}
FAKE int cuMemFree_v2(unsigned long long at) {
  const std::lock_guard lock(driver.mutex);
  const auto range = driver.ranges.find(at);
  if (range == driver.ranges.end()) return kInvalidValue;
  std::free(range->second.data);
  ::munmap(reinterpret_cast<void*>(at), range->second.bytes);
  driver.ranges.erase(range);
  return kSuccess;
}
FAKE int cuMemHostAlloc(void** at, size_t bytes, unsigned int) {
  if (const int result = wantedWithContext("cuMemHostAlloc")) return result;
  *at = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*at) return kOutOfMemory;
  const std::lock_guard lock(driver.mutex);
  driver.host_memory.insert(*at);
  return kSuccess;
}
FAKE int cuMemFreeHost(void* at) {
  {
    const std::lock_guard lock(driver.mutex);
    if (driver.host_memory.erase(at) == 0) return kInvalidValue;
  }
  std::free(at);
  return kSuccess;
}
FAKE int cuMemHostGetDevicePointer_v2(unsigned long long* address, void* at, unsigned int) {
  *address = reinterpret_cast<uintptr_t>(at);
  return kSuccess;
}
FAKE int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  if (current.empty()) return kInvalidContext;
  return addTo(stream, "cuMemcpyAsync", [=] {
    if (bytes > 0) std::memcpy(dataAt(to), dataAt(from), bytes);  // a copy of nothing may have no buffer
  });
}

FAKE int cuGetErrorName(int error, const char** name) {
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKED";
  return kSuccess;
}
FAKE int cuGetErrorString(int, const char** text) {
  *text = "of the fake driver";
  return kSuccess;
}

FAKE int cuPointerGetAttributes(unsigned int count, const int* attributes, void** values,
                                unsigned long long pointer) {
  const std::lock_guard lock(driver.mutex);
  const auto range = rangeOf(pointer);
  const bool known = range != driver.ranges.end();
  for (unsigned int i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case 2:  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE: CU_MEMORYTYPE_DEVICE, of managed memory too
        *static_cast<unsigned int*>(values[i]) = known ? 2 : 0;
        break;
      case 8:  // CU_POINTER_ATTRIBUTE_IS_MANAGED
        *static_cast<unsigned int*>(values[i]) = known && range->second.is_managed ? 1 : 0;
        break;
      case 9:  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        *static_cast<int*>(values[i]) = known ? range->second.device : -2;
        break;
      default:
        return kInvalidValue;
    }
  }
  return kSuccess;
}
