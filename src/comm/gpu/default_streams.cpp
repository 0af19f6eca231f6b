#include "comm/gpu/default_streams.h"

#include <mutex>
#include <vector>

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

bool isDefault(CudaStream stream) {
  return !stream || stream == kStreamLegacy || stream == kStreamPerThread;
}

}  // namespace

DefaultStreams::DefaultStreams(const JobId& communicator, int rank, int gpu)
    : communicator_(communicator), rank_(rank), gpu_(gpu) {}

DefaultStreams::~DefaultStreams() {
  RanksOfProcess& all = ranksOfProcess();
  const std::lock_guard lock(all.mutex);
  std::erase(all.ranks, this);
}

Status DefaultStreams::enter(CudaStream stream) {
  RanksOfProcess& all = ranksOfProcess();
  const std::lock_guard lock(all.mutex);
  for (const DefaultStreams* const other : all.ranks)
    if (other != this && other->communicator_ == communicator_ && other->gpu_ == gpu_ &&
        (isDefault(stream) || other->uses_default_))
      return makeStatus(
          Code::kInvalidUsage,
          "rank %d: rank %d of this process is on GPU %d, too, and %s a default stream of CUDA for one-sided "
          "operations: one rank that waits there holds the other back. Use streams made with "
          "cudaStreamNonBlocking",
          rank_, other->rank_, gpu_, isDefault(stream) ? "this call uses" : "has used");
  if (!has_entered_) all.ranks.push_back(this);
  has_entered_ = true;
  uses_default_ |= isDefault(stream);
  return {};
}

}  // namespace horing
