#include "nccl/init_lines.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/thread_object.h"
#include "nccl/current_gpu.h"
#include "nccl/environment.h"

namespace horing::nccl {

namespace {

struct Begun {
  ncclComm_t* place;
  InitCall call;
  int child_number;  // of its parent's
};
using BegunInGroup = ThreadObject<std::vector<Begun>>;

struct Unmade {
  InitCall call;
  int child_number;
};

// Of all threads. Never destroyed: calls may come during exit.
struct AllComms {
  std::mutex mutex;
  std::map<ncclComm_t, Unmade> unmade;  // under mutex
  std::map<ncclComm_t, int> children;   // under mutex: how many each parent has made
  std::atomic<bool> has_unmade{false};
};
AllComms& allComms() {
  static auto* const kept = new AllComms;
  return *kept;
}

void logLine(ncclComm_t comm, const InitCall& call, int child_number, const char* event) {
  std::string origin = formatString("commId 0x%llx", static_cast<unsigned long long>(call.id));
  if (call.parent)
    origin = formatString("parent %p splitCount %d color %d key %d", static_cast<void*>(call.parent),
                          child_number, call.color, call.key);
  logFor(call.rank, call.gpu)
      .info("nccl", "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx %s - Init %s",
            call.function, static_cast<void*>(comm), call.rank, call.ranks, call.gpu, call.gpu,
            CurrentGpu::busOf(call.gpu), origin.c_str(), event);
}

// Errors leave the values as they are.
void askAbout(ncclComm_t comm, InitCall& call) {
  int gpu = -1;
  [[maybe_unused]] horingResult_t asked = horingCommUserRank(own(comm), &call.rank);
  asked = horingCommCount(own(comm), &call.ranks);
  asked = horingCommCuDevice(own(comm), &gpu);
  if (gpu >= 0) call.gpu = gpu;
}

void logMade(ncclComm_t comm, InitCall call, int child_number) {
  askAbout(comm, call);
  if (call.parent) logLine(comm, call, child_number, "START");
  logLine(comm, call, child_number, "COMPLETE");
}

}  // namespace

// FNV-1a
uint64_t hashOf(const ncclUniqueId& id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : id.internal) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

void logBegin(ncclComm_t* place, const InitCall& call) noexcept {
  try {
    if (!logFor(call.rank, -1).enabled(LogLevel::kInfo)) return;
    Begun begun{place, call, 0};
    if (call.parent) {
      std::lock_guard lock(allComms().mutex);
      begun.child_number = ++allComms().children[call.parent];
    } else {
      if (call.gpu < 0) begun.call.gpu = CurrentGpu::current();
      logLine(*place, begun.call, 0, "START");
    }
    BegunInGroup::get().push_back(begun);
  } catch (...) {  // no memory: lines are lost
  }
}

void logEnd(ncclResult_t result) noexcept {
  try {
    const std::vector<Begun> all = std::exchange(BegunInGroup::get(), {});
    if (result != ncclSuccess && result != ncclInProgress) return;
    for (const auto& [place, call, child_number] : all) {
      if (!*place) continue;  // a split that this rank has no part in
      if (result == ncclSuccess) {
        logMade(*place, call, child_number);
        continue;
      }
      std::lock_guard lock(allComms().mutex);
      allComms().unmade.insert_or_assign(*place, Unmade{call, child_number});
      allComms().has_unmade = true;
    }
  } catch (...) {  // no memory: lines are lost
  }
  logProgress();
}

void logProgress() noexcept {
  AllComms& all = allComms();
  if (!all.has_unmade) return;
  try {
    std::lock_guard lock(all.mutex);
    std::erase_if(all.unmade, [](const auto& each) {
      const auto& [comm, unmade] = each;
      horingResult_t state = horingSuccess;
      const bool is_alive = horingCommGetAsyncError(own(comm), &state) == horingSuccess;
      if (is_alive && state == horingSuccess) logMade(comm, unmade.call, unmade.child_number);
      return !is_alive || state != horingInProgress;
    });
    all.has_unmade = !all.unmade.empty();
  } catch (...) {  // no memory: lines are lost
  }
}

void logForget(ncclComm_t comm) noexcept {
  AllComms& all = allComms();
  std::lock_guard lock(all.mutex);
  all.unmade.erase(comm);
  all.children.erase(comm);
}

}  // namespace horing::nccl
