#include "comm/gpu/default_streams.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace horing {

namespace {

struct RanksOfProcess {
  std::mutex mutex;
  std::vector<DefaultStreams*> ranks;  // that have entered
};
RanksOfProcess& ranksOfProcess() {
  static auto* const all = new RanksOfProcess;  // never destroyed: communicators may end during exit
  return *all;
}

// Of this thread alone: the system gives the ID of a thread that has ended to another, which has another stream.
uint64_t thisThread() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t own = ++last;
  return own;
}

}  // namespace

DefaultStreams::DefaultStreams(const JobId& communicator, int rank, int gpu)
    : communicator_(communicator), rank_(rank), gpu_(gpu) {}

DefaultStreams::~DefaultStreams() {
  RanksOfProcess& all = ranksOfProcess();
  const std::lock_guard lock(all.mutex);
  std::erase(all.ranks, this);
}

bool DefaultStreams::holdEachOtherBack(const Use& one, const Use& other) {
  if (!one.waits && !other.waits) return false;
  const bool is_same = one.kind == Kind::kOfThread && one.kind == other.kind && one.thread == other.thread;
  return is_same || one.kind == Kind::kDefault || other.kind == Kind::kDefault;
}

const char* DefaultStreams::nameOf(Kind kind) {
  switch (kind) {
    case Kind::kBlocking:
      return "a stream made without cudaStreamNonBlocking";
    case Kind::kOfThread:
      return "cudaStreamPerThread";
    case Kind::kDefault:
      return "the default stream";
  }
  return "";
}

Status DefaultStreams::enter(const CudaDevice& device, CudaStream stream, bool waits) {
  Use use{Kind::kBlocking, 0, waits};
  if (!stream || stream == kStreamLegacy) {
    use.kind = Kind::kDefault;
  } else if (stream == kStreamPerThread) {
    use = {Kind::kOfThread, thisThread(), waits};
  } else {
    HORING_ASSIGN(const bool is_alone, device.isNonBlocking(stream));
    if (is_alone) return {};
  }
  RanksOfProcess& all = ranksOfProcess();
  const std::lock_guard lock(all.mutex);
  if (std::ranges::find(uses_, use) != uses_.end()) return {};
  for (const DefaultStreams* const other : all.ranks) {
    if (other == this || other->communicator_ != communicator_ || other->gpu_ != gpu_) continue;
    for (const Use& its : other->uses_)
      if (holdEachOtherBack(use, its))
        return makeStatus(
            Code::kInvalidUsage,
            "rank %d: rank %d of this process is on GPU %d, too, and has %s %s. This call %s %s: a wait "
            "there holds the other rank back. Use streams made with cudaStreamNonBlocking",
            rank_, other->rank_, gpu_, its.waits ? "waited for a signal on" : "used", nameOf(its.kind),
            waits ? "waits for a signal, or comes behind a wait of its group, on" : "uses", nameOf(use.kind));
  }
  if (uses_.empty()) all.ranks.push_back(this);
  uses_.push_back(use);
  return {};
}

void DefaultStreams::takeBack(size_t uses) {
  RanksOfProcess& all = ranksOfProcess();
  const std::lock_guard lock(all.mutex);
  uses_.resize(uses);
  if (uses_.empty()) std::erase(all.ranks, this);
}

}  // namespace horing
