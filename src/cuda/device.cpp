#include "cuda/device.h"

#include <chrono>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

#include "cuda/reserve.h"

namespace horing {

namespace {
// From cuda.h.
constexpr unsigned int kStreamNonBlocking = 1;
constexpr int kPeerAccessAlreadyEnabled = 704;
constexpr int kAttributeMps = 133;  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED

// First polls without sleep, since a copy of some KiB takes less than a sleep (70 us and more).
constexpr int kLooksWithoutNaps = 200;
constexpr std::chrono::microseconds kNap{20};

// For a green context, which is part of the primary context, returns the primary one.
Result<CudaContext> contextOf(const CudaApi& api, CudaStream stream) {
  CudaContext context = nullptr;
  void* green = nullptr;
  HORING_TRY(api.check(api.stream_contexts ? api.stream_contexts(stream, &context, &green)
                                           : api.stream_context(stream, &context),
                       "asking for the context of the stream"));
  return context;
}
}  // namespace

Result<std::shared_ptr<const CudaDevice>> CudaDevice::open(const CudaApi& api, int number) {
  CudaContext context = nullptr;
  HORING_TRY(api.check(api.retain_context(&context, number), formatString("using GPU %d", number).c_str()));
  return std::shared_ptr<const CudaDevice>(new CudaDevice(api, number, context));
}

CudaDevice::~CudaDevice() {
  api_.release_context(number_);  // fails if the driver is already shut down: nothing is left to release then
}

Result<int> CudaDevice::ofStream(const CudaApi& api, CudaStream stream) {
  CudaContext popped = nullptr;
  HORING_ASSIGN(const CudaContext context, contextOf(api, stream));
  HORING_TRY(api.check(api.push_context(context), "using the context of the stream"));
  int number = -1;
  const int result = api.context_device(&number);
  api.pop_context(&popped);
  HORING_TRY(api.check(result, "asking for the GPU of the stream"));
  return number;
}

bool CudaDevice::launchesBlock() {
  const char* const blocks = std::getenv("CUDA_LAUNCH_BLOCKING");
  return blocks && std::atoi(blocks) != 0;
}

Result<std::string> CudaDevice::busOf(const CudaApi& api, int number) {
  // CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, _BUS_ID, _DEVICE_ID
  int place[3] = {};
  constexpr int kAttributes[] = {50, 33, 34};
  for (size_t i = 0; i < std::size(place); ++i)
    HORING_TRY(api.check(api.device_attribute(&place[i], kAttributes[i], number),
                         "asking for the PCI address of a GPU"));
  return formatString("%04x:%02x:%02x.0", static_cast<unsigned>(place[0]), static_cast<unsigned>(place[1]),
                      static_cast<unsigned>(place[2]));
}

Status CudaDevice::checkStream(CudaStream stream) const {
  const Current current(*this);
  HORING_ASSIGN(const CudaContext context, contextOf(api_, stream));
  if (context != context_) {
    HORING_ASSIGN(const int other, ofStream(api_, stream));
    if (other == number_)
      return makeStatus(Code::kInvalidUsage,
                        "stream %p belongs to another context of GPU %d than its primary one: make it with "
                        "cudaStreamCreate, or in the primary context",
                        stream, number_);
    return makeStatus(Code::kInvalidUsage, "stream %p is one of GPU %d, and the buffers are on GPU %d",
                      stream, other, number_);
  }
  return {};
}

Status CudaDevice::checkContext(CudaContext context, const char* name, const void* memory) const {
  if (!context || context == context_) return {};
  return makeStatus(Code::kInvalidUsage,
                    "%s %p belongs to another context of GPU %d than its primary one: allocate it with "
                    "cudaMalloc, or in the primary context",
                    name, memory, number_);
}

Result<bool> CudaDevice::isNonBlocking(CudaStream stream) const {
  const Current current(*this);
  unsigned int flags = 0;
  HORING_TRY(
      api_.check(api_.stream_flags(stream, &flags), "asking whether the default stream holds a stream up"));
  return (flags & kStreamNonBlocking) != 0;
}

Status CudaDevice::makeStream(CudaStream& stream) const {
  const Current current(*this);
  // The driver clamps it to the highest priority.
  return api_.check(api_.stream_create_with_priority(&stream, kStreamNonBlocking, INT_MIN / 2),
                    "making a stream");
}

Status CudaDevice::makeEvent(CudaEvent& event) const {
  const Current current(*this);
  return api_.check(api_.event_create(&event, CudaApi::kEventWithoutTime), "making an event");
}

Result<uint64_t> CudaDevice::recordedGraph(CudaStream stream) const {
  constexpr int kInvalidated = 2;
  const Current current(*this);
  const char* const what = "asking whether the stream records a graph";
  int state = 0;
  HORING_TRY(api_.check(api_.stream_is_capturing(stream, &state), what));
  if (state == 0) return uint64_t{0};
  if (state == kInvalidated)
    return makeStatus(
        Code::kInvalidUsage,
        "stream %p records a graph, and a call before this one broke the recording off: one that "
        "may not be part of a graph, such as cudaMalloc, in this thread or another",
        stream);
  uint64_t number = kUnknownGraph;
  if (api_.capture_info)
    HORING_TRY(
        api_.check(api_.capture_info(stream, &state, &number, nullptr, nullptr, nullptr, nullptr), what));
  return number;
}

Status CudaDevice::synchronize(CudaStream stream, const std::function<Status()>& news,
                               Deadline deadline) const {
  const Current current(*this);
  for (int looks = 1;; ++looks) {
    const int state = api_.stream_query(stream);
    if (state != CudaApi::kNotReady) return api_.check(state, "waiting for a stream");
    HORING_TRY(news());
    if (deadline.passed())
      return makeStatus(Code::kTimeout,
                        "stream %p of GPU %d did not reach the end of this operation in time "
                        "(HORING_TIMEOUT_MS): something before it on the stream does not end",
                        stream, number_);
    if (looks < kLooksWithoutNaps)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

Result<CudaUuid> CudaDevice::uuid() const {
  CudaUuid uuid{};
  HORING_TRY(api_.check(api_.device_uuid(&uuid, number_), "asking for a GPU's UUID"));
  return uuid;
}

// A driver without this attribute counts as without MPS.
bool CudaDevice::hasMps() const {
  int has = 0;
  return api_.device_attribute(&has, kAttributeMps, number_) == CudaApi::kSuccess && has != 0;
}

Status CudaDevice::reach(const CudaDevice& peer) const {
  if (peer.number_ == number_) return {};
  int can = 0;
  HORING_TRY(api_.check(api_.can_access_peer(&can, number_, peer.number_), "asking for peer access"));
  if (!can)
    return makeStatus(Code::kUnhandledCudaError, "GPU %d does not reach the memory of GPU %d", number_,
                      peer.number_);
  const Current current(*this);
  const int result = api_.enable_peer(peer.context_, 0);
  if (result == kPeerAccessAlreadyEnabled) return {};
  return api_.check(result,
                    formatString("letting GPU %d reach the memory of GPU %d", number_, peer.number_).c_str());
}

Status CudaDevice::push(const CudaDevice& peer, std::byte* to, std::span<const std::byte> from,
                        CudaStream stream) const {
  const auto target = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from.data());
  const int result = peer.number_ == number_
                         ? api_.copy(target, source, from.size(), stream)
                         : api_.copy_to_peer(target, peer.context_, source, context_, from.size(), stream);
  return api_.check(result, formatString("copying from GPU %d to GPU %d", number_, peer.number_).c_str());
}

Status CudaDevice::pushNow(const CudaDevice& peer, std::byte* to, std::span<const std::byte> from) const {
  constexpr int64_t kMostMs = 1000;
  const SteadyClock clock;
  const Current current(*this);
  CudaStream stream = nullptr;
  HORING_TRY(makeStream(stream));
  Status pushed = push(peer, to, from, stream);
  if (pushed.ok())
    pushed = synchronize(
        stream, [] { return Status(); }, Deadline::after(clock, kMostMs));
  api_.stream_destroy(stream);  // the driver destroys it once its work is done
  return pushed;
}

Result<PinnedMemory> PinnedMemory::allocate(std::shared_ptr<const CudaDevice> device, size_t bytes) {
  HORING_ASSIGN(void* const data, CudaReserve::ofProcess().take(device, CudaReserve::Kind::kPinned, bytes));
  const CudaApi& api = device->api();
  const CudaDevice::Current current(*device);
  PinnedMemory memory;
  memory.device_ = std::move(device);
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  HORING_TRY(api.check(api.host_device_address(&memory.address_, data, 0), "mapping pinned host memory"));
  return memory;
}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  free();
  device_ = std::move(other.device_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  address_ = std::exchange(other.address_, 0);
  return *this;
}

void PinnedMemory::leak() {
  if (data_) CudaReserve::ofProcess().forget();
  data_ = nullptr;
}

void PinnedMemory::free() {
  if (!data_) return;
  CudaReserve::ofProcess().giveBack(std::move(device_), CudaReserve::Kind::kPinned,
                                    std::exchange(data_, nullptr), bytes_);
}

}  // namespace horing
