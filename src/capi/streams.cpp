#include "capi/streams.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "capi/device_memory.h"
#include "capi/handle.h"

namespace horing {

namespace {

// The object behind a horingStream_t.
struct OwnStream {
  Stream stream;
  ForkGuard fork_guard;
};

// Distinguishes the library's streams from other pointers.
struct StreamList {
  std::mutex mutex;
  std::vector<std::shared_ptr<OwnStream>> streams;  // shared with threads that wait for a stream
};
StreamList& streamList() {
  static auto* list = new StreamList;  // never destroyed: calls may come during exit
  return *list;
}

auto find(StreamList& list, horingStream_t stream) {
  return std::find_if(list.streams.begin(), list.streams.end(),
                      [&](const std::shared_ptr<OwnStream>& ours) { return ours.get() == stream; });
}

Result<std::shared_ptr<OwnStream>> findShared(horingStream_t stream) {
  StreamList& list = streamList();
  const std::lock_guard lock(list.mutex);
  if (const auto found = find(list, stream); found != list.streams.end()) {
    // The threads of its operations are the parent's.
    if ((*found)->fork_guard.isForkedChild())
      return makeStatus(Code::kInvalidUsage,
                        "this stream belongs to the process that made it, and this is a forked child: make a "
                        "new one here");
    return *found;
  }
  return makeStatus(
      Code::kInvalidUsage,
      "stream is %p: expected NULL (complete on return) or one from horingStreamCreate that was not "
      "destroyed; a stream of CUDA is for buffers on a GPU, or in pinned memory",
      stream);
}

Result<std::shared_ptr<Stream>> findOwn(horingStream_t stream) {
  if (!stream)
    return makeStatus(Code::kInvalidArgument, "stream is NULL: expected one from horingStreamCreate");
  HORING_ASSIGN(std::shared_ptr<OwnStream> found, findShared(stream));
  Stream* const own = &found->stream;
  return std::shared_ptr<Stream>(std::move(found), own);
}

// The number of callbacks running on this thread, which may be the library's or the caller's.
thread_local int callbacks_running = 0;
class CallbackRuns {
 public:
  CallbackRuns() { ++callbacks_running; }
  ~CallbackRuns() { --callbacks_running; }
  CallbackRuns(const CallbackRuns&) = delete;
  CallbackRuns& operator=(const CallbackRuns&) = delete;
};

}  // namespace

Status checkMayWait() {
  if (callbacks_running == 0) return {};
  return makeStatus(
      Code::kInvalidUsage,
      "called in a callback of horingStreamAddCallback, which must neither wait for operations nor "
      "end a communicator or a stream: leave that to a thread of the program");
}

bool isOwnStream(horingStream_t stream) {
  if (!stream) return true;
  StreamList& list = streamList();
  const std::lock_guard lock(list.mutex);
  return find(list, stream) != list.streams.end();
}

Result<Stream*> findStream(horingStream_t stream) {
  if (!stream) return nullptr;
  HORING_ASSIGN(const std::shared_ptr<OwnStream> found, findShared(stream));
  return &found->stream;
}

}  // namespace horing

extern "C" {

horingResult_t horingStreamCreate(horingStream_t* stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    if (!stream)
      return makeStatus(Code::kInvalidArgument, "stream is NULL: expected where to put the stream");
    auto made = std::make_shared<OwnStream>();
    OwnStream* const handle = made.get();
    StreamList& list = streamList();
    const std::lock_guard lock(list.mutex);
    list.streams.push_back(std::move(made));
    *stream = handle;
    return {};
  });
}

horingResult_t horingStreamDestroy(horingStream_t stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_TRY(checkMayWait());
    HORING_ASSIGN(const std::shared_ptr<Stream> own, findOwn(stream));
    const Status status = own->synchronize();
    StreamList& list = streamList();
    const std::lock_guard lock(list.mutex);
    if (const auto found = find(list, stream); found != list.streams.end()) list.streams.erase(found);
    return status;
  });
}

horingResult_t horingStreamSynchronize(horingStream_t stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_TRY(checkMayWait());
    HORING_ASSIGN(const std::shared_ptr<Stream> own, findOwn(stream));
    return own->synchronize();
  });
}

horingResult_t horingStreamMark(horingStream_t stream, uint64_t* mark) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(const std::shared_ptr<Stream> own, findOwn(stream));
    if (!mark) return makeStatus(Code::kInvalidArgument, "mark is NULL: expected where to put it");
    *mark = own->mark();
    return {};
  });
}

horingResult_t horingStreamWait(horingStream_t stream, uint64_t mark, int timeoutMs) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(const std::shared_ptr<Stream> own, findOwn(stream));
    if (timeoutMs < 0)
      return makeStatus(Code::kInvalidArgument, "timeoutMs is %d: expected 0 or more", timeoutMs);
    if (timeoutMs > 0) HORING_TRY(checkMayWait());
    return own->wait(mark, std::chrono::milliseconds(timeoutMs));
  });
}

horingResult_t horingStreamWaitOnGpu(horingStream_t stream, uint64_t mark, horingComm_t comm,
                                     horingStream_t cuda_stream) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_ASSIGN(const std::shared_ptr<Stream> own, findOwn(stream));
    HORING_TRY(checkHandle(comm));
    const CudaDriver* const driver = processDriver();
    std::optional<int> device;
    if (driver && !isOwnStream(cuda_stream)) {
      HORING_ASSIGN(device, gpuOfStream(*driver, cuda_stream));
    }
    if (!device)
      return makeStatus(Code::kInvalidUsage,
                        "cudaStream is %p: expected a cudaStream_t, or cudaStreamLegacy "
                        "where a GPU is current",
                        cuda_stream);
    HORING_ASSIGN(const std::shared_ptr<const CudaDevice> gpu, comm->queue->open(*driver, *device));
    HORING_TRY(comm->queue->bind(gpu));
    const Status before = own->wait(mark, std::chrono::milliseconds(0));
    if (before.code() != Code::kInProgress) return {};
    HORING_ASSIGN(std::shared_ptr<const StreamHold> hold, comm->queue->hold(cuda_stream));
    own->callBack([hold = std::move(hold)](const Status&) mutable { hold.reset(); }, mark);
    return {};
  });
}

horingResult_t horingStreamQuery(horingStream_t stream) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(const std::shared_ptr<Stream> own, findOwn(stream));
    return own->query();
  });
}

horingResult_t horingStreamAddCallback(horingStream_t stream, horingStreamCallback_t callback,
                                       void* userData) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    HORING_ASSIGN(const std::shared_ptr<Stream> own, findOwn(stream));
    if (!callback) return makeStatus(Code::kInvalidArgument, "callback is NULL: expected a function");
    own->callBack([=](const Status& status) {
      const CallbackRuns runs;
      callback(stream, report(status, nullptr), userData);
    });
    return {};
  });
}

}  // extern "C"
