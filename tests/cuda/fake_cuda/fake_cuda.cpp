// See fake_cuda.h. Answers as the driver does: an address that it does not know has attributes that are zero.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fake_graph.h"
#include "fake_kernels.h"
#include "fake_objects.h"
#include "fake_types.h"

namespace {

using enum horing::fake::Result;
using horing::fake::Context;
using Event = horing::fake::RecordableEvent;
using horing::fake::Graph;
using horing::fake::GraphPlace;
using horing::fake::IpcHandle;
using horing::fake::Kernels;
using horing::fake::Range;
using horing::fake::Stream;
using horing::fake::thisThread;

constexpr int kDevices = 4;
constexpr int kProcessors = 8, kBlocksOfProcessor = 2;
constexpr unsigned int kExternal = 1;  // CU_EVENT_WAIT_EXTERNAL, CU_EVENT_RECORD_EXTERNAL

// All that the driver knows. One for the process, as the driver is.
struct Driver {
  ~Driver() {
    for (auto& stream : default_streams) stream.reset();
    thread_streams.clear();
    for (const auto& [memory, bytes] : host_memory) std::free(reinterpret_cast<void*>(memory));
  }
  std::mutex mutex;
  Context contexts[kDevices] = {{0}, {1}, {2}, {3}};
  Context others[kDevices] = {{0}, {1}, {2}, {3}};  // which programs make themselves
  Context green[kDevices] = {{0, &contexts[0]}, {1, &contexts[1]}, {2, &contexts[2]}, {3, &contexts[3]}};
  std::unique_ptr<Stream> default_streams[kDevices];
  std::map<std::pair<int, int>, std::unique_ptr<Stream>> thread_streams;  // by thread and device
  std::map<uintptr_t, Range> ranges;
  std::map<uintptr_t, size_t> host_memory;  // pinned
  const Kernels* kernels = nullptr;
  int kernels_running = 0;
  int running_on[kDevices] = {};
  bool reaches[kDevices][kDevices] = {};
  std::condition_variable ended;            // a kernel
  std::atomic<int> calls_wait_for_kernels;  // see FakeCuda::waitForKernels()
  std::atomic<int> launches = 0;
  std::atomic<int> columns = 0, rows = 0;
  std::atomic<int> flushes = 0;  // of what adapters wrote
  std::atomic<bool> orders_writes = false;
  std::atomic<int> recording = 0;   // streams, in CUDA's default mode
  std::atomic<int> broken_off = 0;  // how often such recordings were, by an unrelated call
  std::atomic<int> live = 0;        // things that were made and are to be given back, but for contexts
  std::set<std::string> functions;
  std::vector<std::unique_ptr<Event>> ended_events;  // which a stream may still come to
  uintptr_t marked = 0;                              // the marked address that a test chose
  std::string failing;                               // function
  int failing_with = 0;
  int successes_left = 0;
  int failures_left = 0;
  std::map<std::string, int, std::less<>> calls;  // of functions that may fail
  std::atomic<void (*)()> watches_pins = nullptr;
  std::atomic<const std::atomic<bool>*> copies_from =
      nullptr;                       // null: now; else they are not even begun before that is set
  std::atomic<int64_t> copy_us = 0;  // what each copy by cuMemcpyAsync takes
};
Driver driver;

thread_local std::vector<Context*> current;

thread_local int capture_mode = 0;                          // CU_STREAM_CAPTURE_MODE_GLOBAL
thread_local std::atomic<int> recorded_by_this_thread = 0;  // streams, in the mode of a thread

// While some thread records in the default mode, or this one in its own, no thread of that mode may call these.
bool isProhibited(std::string_view function) {
  static constexpr std::string_view kUnsafe[] = {"cuMemAlloc",    "cuMemFree",        "cuMemHostAlloc",
                                                 "cuMemFreeHost", "cuModuleLoadData", "cuStreamQuery",
                                                 "cuEventQuery"};
  return (driver.recording > 0 || recorded_by_this_thread > 0) && capture_mode == 0 &&
         std::find(std::begin(kUnsafe), std::end(kUnsafe), function) != std::end(kUnsafe);
}

// The result that a test wants from this call; kSuccess: the call does its work.
int wanted(const char* function) {
  if (isProhibited(function)) {
    ++driver.broken_off;
    return kUnsupportedInCapture;
  }
  const std::lock_guard lock(driver.mutex);
  ++driver.calls[function];
  if (driver.failing != function || driver.failures_left == 0) return kSuccess;
  if (driver.successes_left-- > 0) return kSuccess;
  --driver.failures_left;
  return driver.failing_with;
}
int wantedWithContext(const char* function) {
  return current.empty() ? static_cast<int>(kInvalidContext) : wanted(function);
}

// Under the lock. The end: unowned.
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

bool isBrokenOff(const Graph& graph) {
  return graph.forbids_others && graph.broken_off_before != driver.broken_off;
}

// NULL and 1: the default one of the current context; 2: that of the calling thread.
Stream* streamOf(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) > 2) return static_cast<Stream*>(stream);
  if (current.empty()) return nullptr;
  const std::lock_guard lock(driver.mutex);
  const int device = current.back()->device;
  auto& own = reinterpret_cast<uintptr_t>(stream) == 2 ? driver.thread_streams[{thisThread(), device}]
                                                       : driver.default_streams[device];
  if (!own) own.reset(new Stream{current.back(), {}});
  return own.get();
}

int addTo(void* stream, const char* function, std::function<void()> work) {
  if (const int result = wantedWithContext(function)) return result;
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  if (own->records()) {
    if (isBrokenOff(*own->recorded.graph)) return kCaptureInvalidated;
    own->recorded.add(std::move(work));
  } else {
    own->queue.add(std::move(work));
  }
  return kSuccess;
}

// Kernels can access all GPU memory, and nothing else can.
void allow(const std::pair<const uintptr_t, Range>& range, bool allowed) {
  if (range.second.is_forbidden)
    ::mprotect(reinterpret_cast<void*>(range.first), range.second.bytes,
               allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}
class KernelRuns {
 public:
  explicit KernelRuns(int device) : device_(device) {
    const std::lock_guard lock(driver.mutex);
    ++driver.running_on[device_];
    if (driver.kernels_running++ == 0)
      for (const auto& range : driver.ranges) allow(range, true);
  }
  ~KernelRuns() {
    const std::lock_guard lock(driver.mutex);
    if (--driver.kernels_running == 0)
      for (const auto& range : driver.ranges) allow(range, false);
    --driver.running_on[device_];
    driver.ended.notify_all();
  }
  KernelRuns(const KernelRuns&) = delete;
  KernelRuns& operator=(const KernelRuns&) = delete;

 private:
  const int device_;
};

// As a driver may: until no kernel runs on the current GPU, or on one that reaches its memory or whose memory it reaches.
enum WhatWaits { kNothing = 0, kFrees = 1, kAllocations = 2 };
void awaitKernels(WhatWaits what) {
  if (driver.calls_wait_for_kernels < what || current.empty()) return;
  const int own = current.back()->device;
  std::unique_lock lock(driver.mutex);
  driver.ended.wait(lock, [own] {
    for (int device = 0; device < kDevices; ++device)
      if ((device == own || driver.reaches[device][own] || driver.reaches[own][device]) &&
          driver.running_on[device] > 0)
        return false;
    return true;
  });
}

enum class HostPart { kNone, kPinned, kPageable };  // kNone: of a GPU, or managed
HostPart hostPartOf(unsigned long long address) {
  const std::lock_guard lock(driver.mutex);
  if (rangeOf(address) != driver.ranges.end()) return HostPart::kNone;
  const auto next = driver.host_memory.upper_bound(address);
  if (next == driver.host_memory.begin()) return HostPart::kPageable;
  const auto& [begin, bytes] = *std::prev(next);
  return address - begin < bytes ? HostPart::kPinned : HostPart::kPageable;
}

std::atomic_ref<uint32_t> wordAt(unsigned long long address) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(dataAt(address)));
}

void add(uintptr_t begin, const Range& range) {
  const std::lock_guard lock(driver.mutex);
  driver.ranges[begin] = range;
  if (driver.kernels_running > 0) allow({begin, range}, true);
}

bool isOpened(uintptr_t address) {
  const std::lock_guard lock(driver.mutex);
  const auto range = rangeOf(address);
  return range != driver.ranges.end() && range->second.is_opened;
}
// A test that wants writes to other GPUs to fail wants them to be lost, which the driver does not see.
bool dropsPeerWrite() {
  return wanted("a write to another GPU") != kSuccess;
}

// Memory that crashes all accesses except the driver's and kernels'.
int addPages(unsigned long long* at, size_t bytes, int device, int pages) {
  void* const forbidden = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, pages, 0);
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pages, 0);
  if (forbidden == MAP_FAILED || data == MAP_FAILED) return kOutOfMemory;
  add(reinterpret_cast<uintptr_t>(forbidden), {bytes, device, false, static_cast<char*>(data), true, pages});
  *at = reinterpret_cast<uintptr_t>(forbidden);
  ++driver.live;
  return kSuccess;
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
FAKE void fakeCudaFail(const char* function, int with, int successes_before, int failures) {
  const std::lock_guard lock(driver.mutex);
  driver.failing = function ? function : "";
  driver.failing_with = with;
  driver.successes_left = successes_before;
  driver.failures_left = failures;
}

FAKE void fakeCudaSetKernels(const Kernels* kernels) {
  const std::lock_guard lock(driver.mutex);
  driver.kernels = kernels;
}

FAKE int fakeCudaCalls(const char* function) {
  const std::lock_guard lock(driver.mutex);
  return driver.calls[function];
}
FAKE void fakeCudaWatchPins(void (*watch)()) {
  driver.watches_pins = watch;
}
FAKE void fakeCudaHold(const std::atomic<bool>* until) {
  driver.copies_from = until;
}
FAKE void fakeCudaSlow(int64_t copy_us) {
  driver.copy_us = copy_us;
}

FAKE void fakeCudaWaitForKernels(int what) {
  driver.calls_wait_for_kernels = what;
}
FAKE int fakeCudaRunning(int device) {
  const std::lock_guard lock(driver.mutex);
  return driver.running_on[device];
}
FAKE int fakeCudaLaunches() {
  return driver.launches;
}
FAKE int fakeCudaColumns() {
  return driver.columns;
}
FAKE int fakeCudaRows() {
  return driver.rows;
}
FAKE char* fakeCudaDataAt(const void* address) {
  return dataAt(reinterpret_cast<uintptr_t>(address));
}
FAKE int fakeCudaFlushes() {
  return driver.flushes;
}
FAKE void fakeCudaOrder(bool orders) {
  driver.orders_writes = orders;
}
FAKE int fakeCudaLive() {
  return driver.live;
}

FAKE int cuInit(unsigned int) {
  return wanted("cuInit");
}
FAKE int cuDeviceGetCount(int* count) {
  *count = kDevices;
  return kSuccess;
}
FAKE int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  if (const int result = wanted("cuDeviceGetUuid")) return result;
  std::memset(uuid, device + 1, 16);
  return kSuccess;
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int result = wanted("cuDevicePrimaryCtxRetain")) return result;
  if (device < 0 || device >= kDevices) return 101;  // CUDA_ERROR_INVALID_DEVICE
  *context = &driver.contexts[device];
  return kSuccess;
}
FAKE void* fakeCudaContext(int device, bool is_green) {
  return is_green ? &driver.green[device] : &driver.others[device];
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
FAKE int cuCtxGetCurrent(void** context) {
  *context = current.empty() ? nullptr : current.back();
  return kSuccess;
}
FAKE int cuCtxGetDevice(int* device) {
  if (current.empty()) return kInvalidContext;
  *device = current.back()->device;
  return kSuccess;
}

FAKE int cuStreamCreate(void** stream, unsigned int flags) {
  if (const int result = wantedWithContext("cuStreamCreate")) return result;
  *stream = new Stream{current.back(), {}, flags};
  ++driver.live;
  return kSuccess;
}
FAKE int cuStreamCreateWithPriority(void** stream, unsigned int flags, int) {
  return cuStreamCreate(stream, flags);
}
FAKE int cuStreamDestroy_v2(void* stream) {
  if (current.empty()) return kInvalidContext;
  delete static_cast<Stream*>(stream);
  --driver.live;
  return kSuccess;
}
FAKE int cuStreamGetCtx(void* stream, void** context) {
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  *context = own->context;
  return kSuccess;
}
FAKE int cuStreamGetCtx_v2(void* stream, void** context, void** green) {
  if (const int result = cuStreamGetCtx(stream, context)) return result;
  auto* const own = static_cast<Context*>(*context);
  *green = own->primary ? own : nullptr;
  if (own->primary) *context = own->primary;
  return kSuccess;
}
FAKE int cuStreamGetFlags(void* stream, unsigned int* flags) {
  if (const int result = wanted("cuStreamGetFlags")) return result;
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  *flags = own->flags;
  return kSuccess;
}
FAKE int cuStreamIsCapturing(void* stream, int* status) {
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  *status = !own->records() ? 0 : isBrokenOff(*own->recorded.graph) ? 2 : 1;
  return kSuccess;
}
FAKE int cuStreamGetCaptureInfo_v3(void* stream, int* status, uint64_t* id, void**, const void* const**,
                                   const void**, size_t*) {
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  *status = own->records() ? 1 : 0;
  if (own->records()) *id = own->recorded.graph->number;
  return kSuccess;
}
FAKE int cuStreamBeginCapture_v2(void* stream, int mode) {
  constexpr int kGlobal = 0, kThreadLocal = 1;
  if (mode != kGlobal && mode != kThreadLocal) return kInvalidValue;
  static std::atomic<uint64_t> graphs{0};
  Graph& graph = *(streamOf(stream)->recorded = {std::make_shared<Graph>(), {}}).graph;
  graph.number = ++graphs;
  graph.forbids_others = mode == kGlobal;
  graph.broken_off_before = driver.broken_off;
  ++(graph.forbids_others ? driver.recording : recorded_by_this_thread);
  return kSuccess;
}
FAKE int cuStreamEndCapture(void* stream, void** graph) {
  const GraphPlace recorded = std::exchange(streamOf(stream)->recorded, {});
  --(recorded.graph->forbids_others ? driver.recording : recorded_by_this_thread);
  recorded.graph->number = 0;  // streams that joined it record no more
  if (isBrokenOff(*recorded.graph)) return kCaptureInvalidated;
  if (!recorded.isBehindAll()) return kCaptureUnjoined;
  *graph = new Graph(*recorded.graph);
  return kSuccess;
}
// A graph is as good as its executable.
FAKE int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new Graph(*static_cast<Graph*>(graph));
  return kSuccess;
}
FAKE int cuGraphLaunch(void* executable, void* stream) {
  Graph graph = *static_cast<Graph*>(executable);
  graph.bind();
  return addTo(stream, "cuGraphLaunch", [graph = std::move(graph)] { graph.replay(); });
}
FAKE int cuGraphExecDestroy(void* executable) {
  delete static_cast<Graph*>(executable);
  return kSuccess;
}
FAKE int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kSuccess;
}
FAKE int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(capture_mode, *mode);
  return kSuccess;
}
FAKE int cuStreamSynchronize(void* stream) {
  if (current.empty()) return kInvalidContext;
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  own->queue.synchronize();
  return kSuccess;
}
FAKE int cuStreamQuery(void* stream) {
  if (const int result = wantedWithContext("cuStreamQuery")) return result;
  Stream* const own = streamOf(stream);
  if (!own) return kInvalidContext;
  return own->queue.idle() ? kSuccess : kNotReady;
}
FAKE int cuStreamWaitEvent(void* stream, void* event, unsigned int flags) {
  Stream* const own = streamOf(stream);
  auto* const waited = static_cast<Event*>(event);
  if (flags == kExternal) {
    if (!own || !own->records()) return kInvalidValue;
    own->recorded.addBound(
        [waited] { return [waited, latest = waited->latest()] { waited->await(latest); }; });
    return kSuccess;
  }
  if (own && (own->records() || waited->place.graph)) {
    // A stream joins the graph in which the event was recorded.
    if (!own->records()) own->recorded.graph = waited->place.graph;
    if (!own->records() || own->recorded.graph != waited->place.graph) return kCaptureIsolation;
    own->recorded.comeBehind(waited->place);
    return kSuccess;
  }
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
  *event = new Event{current.back()};
  ++driver.live;
  return kSuccess;
}
FAKE int cuEventDestroy_v2(void* event) {
  const std::lock_guard lock(driver.mutex);
  driver.ended_events.emplace_back(static_cast<Event*>(event));
  --driver.live;
  return kSuccess;
}
FAKE int cuEventRecord(void* event, void* stream) {
  Stream* const own = streamOf(stream);
  auto* const recorded = static_cast<Event*>(event);
  if (own && own->context != recorded->context && own->context->primary != recorded->context)
    return kInvalidHandle;
  recorded->place = own && own->records() ? own->recorded : GraphPlace();
  if (recorded->place.graph) return kSuccess;
  const uint64_t number = recorded->record();
  return addTo(stream, "cuEventRecord", [=] { recorded->complete(number); });
}
FAKE int cuEventRecordWithFlags(void* event, void* stream, unsigned int flags) {
  if (const int result = wantedWithContext("cuEventRecordWithFlags")) return result;
  Stream* const own = streamOf(stream);
  auto* const recorded = static_cast<Event*>(event);
  if (flags != kExternal || !own || !own->records()) return kInvalidValue;
  own->recorded.addBound(
      [recorded] { return [recorded, number = recorded->record()] { recorded->complete(number); }; });
  return kSuccess;
}
FAKE int cuEventQuery(void* event) {
  if (const int result = wanted("cuEventQuery")) return result;
  return static_cast<Event*>(event)->done() ? kSuccess : kNotReady;
}

FAKE int cuMemAlloc_v2(unsigned long long* at, size_t bytes) {
  if (const int result = wantedWithContext("cuMemAlloc")) return result;
  awaitKernels(kAllocations);
  const size_t size = (bytes + 4095) / 4096 * 4096;
  const int pages = ::memfd_create("memory of a GPU", MFD_CLOEXEC);
  if (pages < 0 || ::ftruncate(pages, static_cast<off_t>(size)) != 0) return kOutOfMemory;
  if (const int result = addPages(at, size, current.back()->device, pages)) return result;
  const std::lock_guard lock(driver.mutex);
  driver.ranges[*at].context = current.back();
  return kSuccess;
}
FAKE int cuMemFree_v2(unsigned long long at) {
  if (const int result = wantedWithContext("cuMemFree")) return result;
  awaitKernels(kFrees);
  const std::lock_guard lock(driver.mutex);
  const auto range = driver.ranges.find(at);
  if (range == driver.ranges.end()) return kInvalidValue;
  ::munmap(range->second.data, range->second.bytes);
  ::munmap(reinterpret_cast<void*>(at), range->second.bytes);
  ::close(range->second.pages);
  driver.ranges.erase(range);
  --driver.live;
  return kSuccess;
}
// Of pages from the begin of an allocation on.
FAKE int cuMemGetHandleForAddressRange(void* handle, unsigned long long at, size_t bytes, int type,
                                       unsigned long long flags) {
  if (const int result = wantedWithContext("cuMemGetHandleForAddressRange")) return result;
  const std::lock_guard lock(driver.mutex);
  const auto range = driver.ranges.find(at);
  const bool is_there =
      range != driver.ranges.end() && range->second.pages >= 0 && bytes <= range->second.bytes;
  if (!is_there || bytes % 4096 != 0 || type != 1 || flags != 0) return kInvalidValue;
  *static_cast<int*>(handle) = ::fcntl(range->second.pages, F_DUPFD_CLOEXEC, 0);
  return kSuccess;
}
FAKE int cuIpcGetMemHandle(IpcHandle* handle, unsigned long long at) {
  if (const int result = wantedWithContext("cuIpcGetMemHandle")) return result;
  const std::lock_guard lock(driver.mutex);
  const auto range = driver.ranges.find(at);
  if (range == driver.ranges.end() || range->second.pages < 0) return kInvalidValue;
  *handle = {IpcHandle::kMagic,   ::getpid(),           range->second.bytes,
             range->second.pages, range->second.device, {}};
  return kSuccess;
}
FAKE int cuIpcOpenMemHandle_v2(unsigned long long* at, IpcHandle handle, unsigned int flags) {
  if (const int result = wantedWithContext("cuIpcOpenMemHandle")) return result;
  if (handle.magic != IpcHandle::kMagic || flags != 1) return kInvalidValue;
  if (handle.process == ::getpid()) return kInvalidContext;
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.pages);
  const int pages = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (pages < 0) return kInvalidValue;
  if (const int result = addPages(at, handle.bytes, handle.device, pages)) return result;
  const std::lock_guard lock(driver.mutex);
  driver.ranges[*at].is_opened = true;
  return kSuccess;
}
FAKE int cuIpcCloseMemHandle(unsigned long long at) {
  if (const int result = wantedWithContext("cuIpcCloseMemHandle")) return result;
  return cuMemFree_v2(at);
}
FAKE int cuMemGetAddressRange_v2(unsigned long long* begin, size_t* bytes, unsigned long long at) {
  if (const int result = wantedWithContext("cuMemGetAddressRange")) return result;
  const std::lock_guard lock(driver.mutex);
  const auto range = rangeOf(at);
  if (range == driver.ranges.end()) return kNotFound;
  *begin = range->first;
  *bytes = range->second.bytes;
  return kSuccess;
}
FAKE int cuFlushGPUDirectRDMAWrites(int, int) {
  ++driver.flushes;
  return wantedWithContext("cuFlushGPUDirectRDMAWrites");
}
FAKE int cuMemHostAlloc(void** at, size_t bytes, unsigned int) {
  if (const int result = wantedWithContext("cuMemHostAlloc")) return result;
  if (void (*const watch)() = driver.watches_pins) watch();
  awaitKernels(kAllocations);
  *at = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*at) return kOutOfMemory;
  const std::lock_guard lock(driver.mutex);
  driver.host_memory[reinterpret_cast<uintptr_t>(*at)] = bytes;
  ++driver.live;
  return kSuccess;
}
FAKE int cuMemFreeHost(void* at) {
  if (const int result = wantedWithContext("cuMemFreeHost")) return result;
  awaitKernels(kFrees);
  {
    const std::lock_guard lock(driver.mutex);
    if (driver.host_memory.erase(reinterpret_cast<uintptr_t>(at)) == 0) return kInvalidValue;
  }
  std::free(at);
  --driver.live;
  return kSuccess;
}
FAKE int cuMemHostGetDevicePointer_v2(unsigned long long* address, void* at, unsigned int) {
  *address = reinterpret_cast<uintptr_t>(at);
  return kSuccess;
}
// For pageable host memory, "asynchronous" means little: it is read before the call returns, and if it is written, as in all copies
// from host to host, the call returns when the stream has reached the copy.
FAKE int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  for (const std::atomic<bool>* until; (until = driver.copies_from.load()) && !*until;)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  const HostPart source = hostPartOf(from), target = hostPartOf(to);
  std::shared_ptr<std::vector<char>> read;
  if (source == HostPart::kPageable && target == HostPart::kNone)
    read = std::make_shared<std::vector<char>>(dataAt(from), dataAt(from) + bytes);
  const bool is_waited_for =
      target == HostPart::kPageable || (target != HostPart::kNone && source != HostPart::kNone);
  const auto done = is_waited_for ? std::make_shared<std::promise<void>>() : nullptr;
  const bool is_dropped = isOpened(to) && dropsPeerWrite();
  const int added = addTo(stream, "cuMemcpyAsync", [=] {
    if (is_dropped) return;
    constexpr int64_t kNapUs = 100;  // so that a slow copy may end at once
    for (int64_t us = 0; us < driver.copy_us; us += kNapUs)
      std::this_thread::sleep_for(std::chrono::microseconds(kNapUs));
    // A copy of nothing may have no buffer.
    if (bytes > 0) std::memcpy(dataAt(to), read ? read->data() : dataAt(from), bytes);
    if (done) done->set_value();
  });
  const bool is_recorded = added == kSuccess && streamOf(stream)->records();
  if (added == kSuccess && done && !is_recorded) done->get_future().wait();
  return added;
}
// Each end belongs to the named GPU. Slow, so that a caller that does not wait comes too early.
FAKE int cuMemcpyPeerAsync(unsigned long long to, void* to_context, unsigned long long from,
                           void* from_context, size_t bytes, void* stream) {
  {
    const std::lock_guard lock(driver.mutex);
    for (const auto& [at, context] : {std::pair(to, to_context), std::pair(from, from_context)}) {
      const auto range = rangeOf(at);
      if (range == driver.ranges.end() || range->second.device != static_cast<Context*>(context)->device)
        return kInvalidValue;
    }
  }
  const bool is_dropped = dropsPeerWrite();
  return addTo(stream, "cuMemcpyPeerAsync", [=] {
    if (is_dropped) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::memcpy(dataAt(to), dataAt(from), bytes);
  });
}

FAKE int cuMemsetD8Async(unsigned long long at, unsigned char value, size_t bytes, void* stream) {
  return addTo(stream, "cuMemsetD8Async", [=] {
    // Freed pages read as zeros, and unused parts of a rank's 32 MiB take no time, and no room in a sanitizer's shadow.
    const bool goes = value == 0 && at % 4096 == 0 && bytes % 4096 == 0;
    if (!goes || ::madvise(dataAt(at), bytes, MADV_REMOVE) != 0) std::memset(dataAt(at), value, bytes);
  });
}

FAKE int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 16:  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
      *value = kProcessors;
      return kSuccess;
    case 33:  // CU_DEVICE_ATTRIBUTE_PCI_BUS_ID
      *value = 0x3b + device;
      return kSuccess;
    case 34:  // CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID
    case 50:  // CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID
      *value = 0;
      return kSuccess;
    case 118:  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING
      *value = driver.orders_writes ? 100 : 0;
      return kSuccess;
    case 117:  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
    case 124:  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
      *value = 1;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
FAKE int cuDeviceCanAccessPeer(int* can, int, int) {
  *can = wanted("cuDeviceCanAccessPeer") == kSuccess ? 1 : 0;  // a test that wants it to fail wants a no
  return kSuccess;
}
FAKE int cuCtxEnablePeerAccess(void* peer, unsigned int) {
  if (const int result = wantedWithContext("cuCtxEnablePeerAccess")) return result;
  const std::lock_guard lock(driver.mutex);
  driver.reaches[current.back()->device][static_cast<Context*>(peer)->device] = true;
  return kSuccess;
}

FAKE int cuModuleLoadData(void** module, const void*) {
  if (const int result = wantedWithContext("cuModuleLoadData")) return result;
  const std::lock_guard lock(driver.mutex);
  if (!driver.kernels) return kInvalidImage;
  *module = &driver;
  ++driver.live;
  return kSuccess;
}
FAKE int cuModuleUnload(void*) {
  awaitKernels(kFrees);
  --driver.live;
  return kSuccess;
}
FAKE int cuModuleGetFunction(void** function, void*, const char* name) {
  const std::lock_guard lock(driver.mutex);
  if (driver.kernels->parameter_bytes(name) == 0) return kNotFound;
  *function = const_cast<std::string*>(&*driver.functions.insert(name).first);
  return kSuccess;
}
FAKE int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) {
  *blocks = kBlocksOfProcessor;
  return kSuccess;
}
FAKE int cuLaunchKernel(void* function, unsigned int x, unsigned int y, unsigned int z, unsigned int,
                        unsigned int, unsigned int, unsigned int, void* stream, void** parameters, void**) {
  ++driver.launches;
  driver.columns = static_cast<int>(x);
  driver.rows = static_cast<int>(y);
  const horing::fake::Grid grid{static_cast<int>(x), static_cast<int>(y), static_cast<int>(z)};
  const Kernels* const kernels = driver.kernels;
  const std::string name = *static_cast<std::string*>(function);
  const auto* const first = static_cast<const char*>(parameters[0]);
  auto own = std::make_shared<const std::vector<char>>(first, first + kernels->parameter_bytes(name.c_str()));
  Stream* const on = streamOf(stream);
  if (!on) return kInvalidContext;
  const int added = addTo(stream, "cuLaunchKernel", [=, device = on->context->device] {
    const KernelRuns runs(device);
    kernels->run(name.c_str(), own->data(), grid);
  });
  const char* const blocks = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (added == kSuccess && blocks && std::atoi(blocks) != 0) on->queue.synchronize();
  return added;
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
  if (const int result = wanted("cuPointerGetAttributes")) return result;
  const bool is_pinned = hostPartOf(pointer) == HostPart::kPinned;
  const std::lock_guard lock(driver.mutex);
  const auto range = rangeOf(pointer);
  const bool known = range != driver.ranges.end();
  for (unsigned int i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case 1:  // CU_POINTER_ATTRIBUTE_CONTEXT
        *static_cast<void**>(values[i]) = known ? range->second.context : nullptr;
        break;
      case 2:  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE: CU_MEMORYTYPE_DEVICE, of managed memory too; CU_MEMORYTYPE_HOST
        *static_cast<unsigned int*>(values[i]) = known ? 2 : is_pinned;
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
