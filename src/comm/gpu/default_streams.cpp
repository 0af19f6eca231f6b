#include "comm/gpu/default_streams.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace horing {

namespace {

struct UsesOfProcess {
  std::mutex mutex;
  std::vector<const StreamUse*> uses;
};
UsesOfProcess& usesOfProcess() {
  static auto* const all = new UsesOfProcess;  // never destroyed: communicators may end during exit
  return *all;
}

// Of this thread alone: the system gives the ID of a thread that has ended to another, which has another stream.
uint64_t thisThread() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t own = ++last;
  return own;
}

}  // namespace

StreamUse::StreamUse(const Rank& rank, int gpu, Kind kind, bool waits)
    : rank_(rank),
      gpu_(gpu),
      kind_(kind),
      thread_(kind == Kind::kOfThread ? thisThread() : 0),
      waits_(waits) {}

StreamUse::~StreamUse() {
  UsesOfProcess& all = usesOfProcess();
  const std::lock_guard lock(all.mutex);
  std::erase(all.uses, this);
}

size_t StreamUse::count() {
  UsesOfProcess& all = usesOfProcess();
  const std::lock_guard lock(all.mutex);
  return all.uses.size();
}

// Whether one of the two waits in front of the other.
bool StreamUse::holdsBack(const StreamUse& other) const {
  const bool are_apart = rank_.communicator != other.rank_.communicator ||
                         rank_.number == other.rank_.number || gpu_ != other.gpu_;
  if (are_apart || (!waits_ && !other.waits_)) return false;
  const bool is_same = kind_ == Kind::kOfThread && kind_ == other.kind_ && thread_ == other.thread_;
  return is_same || kind_ == Kind::kDefault || other.kind_ == Kind::kDefault;
}

const char* StreamUse::streamName() const {
  switch (kind_) {
    case Kind::kBlocking:
      return "a stream made without cudaStreamNonBlocking";
    case Kind::kOfThread:
      return "cudaStreamPerThread";
    case Kind::kDefault:
      return "the default stream";
  }
  return "";
}

Status StreamUse::refusedFor(const StreamUse& other) const {
  return makeStatus(Code::kInvalidUsage,
                    "rank %d: rank %d of this process is on GPU %d, too, and %s %s. This call %s %s: a wait "
                    "there holds the "
                    "other rank back. Use streams made with cudaStreamNonBlocking",
                    rank_.number, other.rank_.number, gpu_, other.waits_ ? "waits for a signal on" : "uses",
                    other.streamName(),
                    waits_ ? "waits for a signal, or comes behind a wait of its group, on" : "uses",
                    streamName());
}

Result<std::shared_ptr<const StreamUse>> StreamUse::enter(const Rank& rank, const CudaDevice& device,
                                                          CudaStream stream, bool waits) {
  Kind kind = Kind::kBlocking;
  if (!stream || stream == kStreamLegacy) {
    kind = Kind::kDefault;
  } else if (stream == kStreamPerThread) {
    kind = Kind::kOfThread;
  } else {
    HORING_ASSIGN(const bool is_alone, device.isNonBlocking(stream));
    if (is_alone) return std::shared_ptr<const StreamUse>();
  }
  const std::shared_ptr<const StreamUse> use(new StreamUse(rank, device.number(), kind, waits));
  UsesOfProcess& all = usesOfProcess();
  const std::lock_guard lock(all.mutex);
  for (const StreamUse* const other : all.uses)
    if (use->holdsBack(*other)) return use->refusedFor(*other);
  all.uses.push_back(use.get());
  return use;
}

}  // namespace horing
