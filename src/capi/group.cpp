#include "capi/group.h"

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/thread_object.h"
#include "capi/group_calls.h"
#include "capi/on_threads.h"
#include "capi/streams.h"
#include "comm/gpu/bounce_buffers.h"
#include "comm/tuning/estimate.h"
#include "cuda/device.h"

namespace horing {

namespace {

constexpr unsigned int kSimInfoMagic = horingSimInfo_t HORING_SIM_INFO_INITIALIZER.magic;

struct Init {
  std::function<Status()> make;
  horingComm_t* made;  // the address of its handle, if `status` is ok; null: makes no handle
  Status status{Code::kSystemError, "no memory for a communicator"};
};

// The calls that make communicators from one parent, in order; a single call if there is no parent.
struct Inits {
  horingComm_t parent;
  std::vector<Init> in_turn;
};

struct WindowsOf {
  horingComm_t comm;
  uint64_t generation;  // of the handle
};

struct Group {
  int depth = 0;
  std::vector<Pending> commands;
  std::vector<Inits> inits;
  std::vector<WindowsOf> to_close;
  Status refused;
};

// Thread-local, since the API has no object for a group.
Group& openGroup() {
  return ThreadObject<Group>::get();
}

// Refuses a group in which the first of two launches would wait for the second.
Status checkLaunches(const std::vector<Pending>& commands) {
  if (!CudaDevice::launchesBlock()) return {};
  std::map<JobId, int> gpus;
  for (const Pending& pending : commands) {
    const std::optional<int> gpu =
        pending.command.on_gpu ? pending.comm->queue->gpuOfKernels() : std::nullopt;
    if (!gpu) continue;
    const int first = gpus.emplace(pending.comm->communicator->membership().id(), *gpu).first->second;
    if (first != *gpu)
      return makeStatus(
          Code::kInvalidUsage,
          "a group has operations of ranks on GPUs %d and %d, whose kernels wait for each other, "
          "and CUDA_LAUNCH_BLOCKING is set, with which one thread launches the second when the "
          "first has ended: unset it, have a thread for each rank, or set HORING_GPU_PATH=staged",
          first, *gpu);
  }
  return {};
}

// Runs the commands on the calling thread.
Status runInTurn(std::vector<Pending>& commands) {
  Status first;
  for (Pending& pending : commands) {
    Status status = pending.comm->queue->run(pending.command);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

// A stream for each communicator with operations that must be complete on return: several ranks of one thread wait for each other.
class BlockingStreams {
 public:
  BlockingStreams() = default;
  // Always waits: threads of queues use these streams until their operations end.
  ~BlockingStreams() {
    for (auto& [owner, stream] : streams_) {
      [[maybe_unused]] const Status told = stream.synchronize();
    }
  }
  BlockingStreams(const BlockingStreams&) = delete;
  BlockingStreams& operator=(const BlockingStreams&) = delete;
  Stream& of(horingComm_t comm) {
    for (auto& [owner, stream] : streams_)
      if (owner == comm) return stream;
    return streams_.emplace_back(std::piecewise_construct, std::tuple(comm), std::tuple()).second;
  }
  Status synchronize() {
    Status first;
    for (auto& [owner, stream] : streams_) {
      Status status = stream.synchronize();
      if (first.ok()) first = std::move(status);
    }
    return first;
  }

 private:
  std::list<std::pair<horingComm_t, Stream>> streams_;  // a list, since streams are not movable
};

// Ranks of one communicator that must agree with each other on their kernels do so on a thread each.
Status meetRanks(const std::vector<Pending*>& round) {
  const auto is_first = [&](const Pending* pending) { return pending->comm == round.front()->comm; };
  if (std::all_of(round.begin(), round.end(), is_first)) return {};
  std::set<horingComm_t> meeting;
  for (const Pending* const pending : round)
    if (pending->command.on_gpu && (isForCuda(*pending) || isBlocking(*pending)) &&
        pending->comm->queue->mustMeet(pending->command))
      meeting.insert(pending->comm);
  if (meeting.size() < 2) return {};
  std::vector<std::pair<horingComm_t, Status>> ranks;
  for (const horingComm_t comm : meeting)
    ranks.emplace_back(comm, Status(Code::kSystemError, "no memory for a group"));
  HORING_TRY(onThreads(static_cast<int>(ranks.size()), [&](int index) {
    auto& [comm, status] = ranks[static_cast<size_t>(index)];
    status = comm->queue->meet();
  }));
  for (const auto& [comm, status] : ranks) HORING_TRY(status);
  return {};
}

// Adds to `staged` the commands on CUDA streams that kernels do not take.
Status submit(Pending& pending, BlockingStreams& blocking, std::vector<Pending*>& staged) {
  if (isForCuda(pending)) {
    HORING_ASSIGN(const bool taken, pending.comm->queue->enqueue(pending.command, pending.streams));
    if (!taken) staged.push_back(&pending);
    return {};
  }
  if (isBlocking(pending)) {
    HORING_ASSIGN(const bool taken, pending.comm->queue->enqueueBlocking(pending.command));
    if (taken) return {};
  }
  std::vector<Stream*> streams;
  for (const horingStream_t each : pending.streams) {
    HORING_ASSIGN(Stream* const stream, findStream(each));
    streams.push_back(stream ? stream : &blocking.of(pending.comm));
  }
  return pending.comm->queue->submit(std::move(pending.command), streams);
}

// Splits the commands into rounds, in the order of the calls. A GPU command that waits for operations of its communicator on streams of the
// library comes in a later round than these, so that all ranks of this thread have submitted them by then.
std::vector<std::vector<Pending*>> inRounds(std::vector<Pending>& commands) {
  struct Place {
    size_t round = 0;
    bool is_behind_thread = false;
  };
  std::map<horingComm_t, Place> places;
  std::vector<std::vector<Pending*>> rounds;
  for (Pending& pending : commands) {
    Place& place = places[pending.comm];
    if (pending.command.on_gpu) {
      const bool is_for_cuda = isForCuda(pending);
      if (place.is_behind_thread && (is_for_cuda || isBlocking(pending))) place = {place.round + 1, false};
      place.is_behind_thread |= !is_for_cuda;
    }
    rounds.resize(std::max(rounds.size(), place.round + 1));
    rounds[place.round].push_back(&pending);
  }
  return rounds;
}

// If one rank's queue is full, another rank's calls in this group may be needed to drain it: so waits only if all queues are full, when
// their operations can progress.
Status awaitRoom(const std::vector<Pending>& commands) {
  if (commands.empty()) return {};
  const bool are_all_full = std::all_of(commands.begin(), commands.end(),
                                        [](const Pending& pending) { return pending.comm->queue->isFull(); });
  return are_all_full ? commands.front().comm->queue->awaitRoom() : Status();
}

// A kernel launch may wait on the host for other ranks, and is ordered after work that is on its streams by then: so commands for hosts are
// enqueued last. Otherwise they could deadlock with hosts whose part is ordered after those kernels on other ranks.
Status submitAll(std::vector<Pending> commands, OneSidedOnCuda one_sided, std::list<HandleUse> uses) {
  BlockingStreams blocking;
  std::vector<Pending*> staged;
  Status submitted;
  HORING_TRY(awaitRoom(commands));
  try {
    submitted = one_sided.enqueueEarly();
    for (const std::vector<Pending*>& round : inRounds(commands)) {
      if (submitted.ok()) submitted = meetRanks(round);
      for (Pending* const pending : round)
        if (submitted.ok()) submitted = submit(*pending, blocking, staged);
    }
  } catch (...) {
    submitted = noMemory();
  }
  // Submitted commands are started, and complete on return, even if others failed: the other ranks wait for them.
  const auto note = [&submitted](Status status) {
    if (submitted.ok()) submitted = std::move(status);
  };
  for (const auto step : {&CommandQueue::start, &CommandQueue::settle})
    for (const Pending& pending : commands) note((pending.comm->queue.get()->*step)());
  for (Pending* const pending : staged)
    note(pending->comm->queue->enqueueStaged(std::move(pending->command), pending->streams));
  if (submitted.ok()) note(withoutExceptions([&] { return one_sided.enqueueLate(); }));
  // While only waiting, handles may be ended.
  uses.clear();
  Status carried_out = blocking.synchronize();
  return submitted.ok() ? carried_out : submitted;
}

Status launchAll(std::vector<Pending> commands) {
  for (const Pending& pending : commands)
    if (isBlocking(pending)) HORING_TRY(checkMayWait());
  std::list<HandleUse> uses;
  for (const Pending& pending : commands) {
    uses.emplace_back(pending.comm);
    HORING_TRY(checkHandle(pending.comm));
    if (pending.comm->generation != pending.generation)
      return makeStatus(Code::kInvalidUsage,
                        "a communicator was ended in a group that holds operations of it");
    if (!isForCuda(pending)) HORING_TRY(findStream(pending.streams.front()).status());
  }
  OneSidedOnCuda one_sided;
  HORING_TRY(one_sided.takeFrom(commands));
  HORING_TRY(checkLaunches(commands));
  HORING_ASSIGN(commands, mergeTransfers(std::move(commands)));
  orderLaunches(commands);
  if (commands.empty()) HORING_TRY(awaitRoom(one_sided.some()));
  HORING_TRY(one_sided.enterStreams(commands));
  const bool in_this_thread = std::all_of(commands.begin(), commands.end(), [&](const Pending& pending) {
    return pending.comm == commands.front().comm && isBlocking(pending) && !pending.command.on_gpu;
  });
  if (!in_this_thread || commands.empty())
    return submitAll(std::move(commands), std::move(one_sided), std::move(uses));
  HORING_TRY(one_sided.enqueueEarly());
  HORING_TRY(runInTurn(commands));
  return one_sided.enqueueLate();
}

// Those of all communicators before this thread waits for other ranks, which may wait for that.
void closeWindows(const std::vector<WindowsOf>& all) {
  if (all.empty()) return;
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kLastCopiesMs);
  for (const bool awaits_others : {false, true})
    for (const auto& [comm, generation] : all) {
      HandleUse use(comm);
      if (checkHandle(comm).ok() && comm->generation == generation)
        comm->queue->closeUnusedWindows(deadline, awaits_others);
    }
}

// Continues after a failure, since the other ranks make the other communicators.
void initInTurn(Inits& inits) {
  HandleUse use(inits.parent);
  for (Init& init : inits.in_turn) init.status = init.make();
}

// Aborts communicators of a failed group, so that their other ranks are told and do not wait.
void abortMade(const Init& init) {
  const bool is_made = init.status.ok() || init.status.code() == Code::kInProgress;
  if (!is_made || !init.made || !*init.made) return;
  HandleUse use(*init.made);
  if (!checkAlive(*init.made).ok()) return;
  stopMaking(*init.made);
  if (!checkHandle(*init.made).ok()) return;
  (*init.made)->communicator->abort();
  // Announces the abort to the other ranks.
  [[maybe_unused]] const Status aborted = (*init.made)->communicator->asyncError();
}

// For inits that do not begin: takes back the handles that their calls have given out.
void takeBackHandles(const std::vector<Inits>& all) {
  for (const Inits& inits : all)
    if (!inits.parent)
      for (const Init& init : inits.in_turn) *init.made = nullptr;
}

Status initAll(std::vector<Inits>& inits) {
  const Status begun = withoutExceptions([&]() -> Status {
    if (inits.size() > 1)
      return onThreads(static_cast<int>(inits.size()),
                       [&](int index) { initInTurn(inits[static_cast<size_t>(index)]); });
    initInTurn(inits.front());
    return {};
  });
  if (!begun.ok()) {
    takeBackHandles(inits);
    return begun;
  }
  Status failed, in_progress;
  for (const Inits& of_parent : inits)
    for (const Init& init : of_parent.in_turn)
      if (Status& first = init.status.code() == Code::kInProgress ? in_progress : failed; first.ok())
        first = init.status;
  if (failed.ok()) return in_progress;
  for (const Inits& of_parent : inits)
    for (const Init& init : of_parent.in_turn) abortMade(init);
  return failed;
}

// Operations of one communicator are sequential, communicators concurrent. The bottleneck is that of the longest operation.
Result<Estimate> estimate(const Group& group, bool explains) {
  if (!group.inits.empty())
    return makeStatus(Code::kInvalidUsage, "the group makes communicators, of which no time is predicted");
  std::map<horingComm_t, double> us;
  Estimate all;
  double longest_us = 0;
  for (const Pending& pending : group.commands) {
    HandleUse use(pending.comm);
    HORING_TRY(checkHandle(pending.comm));
    HORING_ASSIGN(Estimate one, estimate(*pending.comm->communicator, pending.command, explains));
    all.us = std::max(all.us, us[pending.comm] += one.us);
    if (one.us > longest_us) longest_us = one.us, all.bottleneck = std::move(one.bottleneck);
  }
  return all;
}

// Closes the open group without launching it; nothing, if it was a nested level.
Result<std::optional<Estimate>> closeSimulated(horingSimInfo_t* info, bool explains, const char* function) {
  if (!groupIsOpen())
    return makeStatus(Code::kInvalidUsage, "%s without a horingGroupStart before it in this thread",
                      function);
  if (--openGroup().depth > 0) return std::optional<Estimate>();
  Group group = std::exchange(openGroup(), Group());
  takeBackHandles(group.inits);
  if (info && (info->magic != kSimInfoMagic || info->size < sizeof *info))
    return makeStatus(Code::kInvalidArgument,
                      "simInfo was not initialised: begin with HORING_SIM_INFO_INITIALIZER");
  if (!group.refused.ok()) return group.refused;
  HORING_ASSIGN(group.commands, mergeTransfers(std::move(group.commands)));
  HORING_ASSIGN(Estimate found, estimate(group, explains));
  if (info) info->estimatedTime = static_cast<float>(found.us);
  return std::optional(std::move(found));
}

}  // namespace

bool groupIsOpen() {
  return openGroup().depth > 0;
}

Status launch(horingComm_t comm, Command&& command, horingStream_t stream) {
  const bool for_cuda = isForCuda(command, stream);
  Stream* own = nullptr;
  if (!for_cuda) {
    HORING_ASSIGN(own, findStream(stream));
  }
  if (groupIsOpen()) {
    openGroup().commands.push_back({comm, comm->generation, std::move(command), {stream}});
    return {};
  }
  HORING_TRY(for_cuda || own ? comm->queue->awaitRoom() : checkMayWait());
  if (entersStream(command, for_cuda))
    HORING_TRY(comm->queue->enterStream(command, for_cuda ? stream : nullptr,
                                        isOneSided(command) && waitsForSignals(command)));
  if (for_cuda) return comm->queue->submit(std::move(command), CudaStream{stream});
  if (own) return comm->queue->submit(std::move(command), {&own, 1});
  return comm->queue->run(command);
}

void addInitToGroup(std::function<Status()> init, InitPlace place) {
  auto& all = openGroup().inits;
  auto of_parent = std::find_if(all.begin(), all.end(), [&](const Inits& other) {
    return place.parent && other.parent == place.parent;
  });
  if (of_parent == all.end()) of_parent = all.insert(of_parent, {place.parent, {}});
  of_parent->in_turn.push_back({std::move(init), place.made});
}

void closeWindowsAfterGroup(horingComm_t comm) {
  auto& all = openGroup().to_close;
  if (std::ranges::none_of(all, [&](const WindowsOf& each) { return each.comm == comm; }))
    all.push_back({comm, comm->generation});
}

void refuseGroup(const Status& why) {
  if (groupIsOpen() && openGroup().refused.ok()) openGroup().refused = why;
}

}  // namespace horing

extern "C" {

horingResult_t horingGroupStart(void) {
  return horing::guarded(nullptr, []() -> horing::Status {
    // Allocated while memory is available.
    [[maybe_unused]] const horing::Status& made = horing::noMemory();
    ++horing::openGroup().depth;
    return {};
  });
}

horingResult_t horingGroupEnd(void) {
  using namespace horing;
  return guarded(nullptr, []() -> Status {
    if (!groupIsOpen())
      return makeStatus(Code::kInvalidUsage,
                        "horingGroupEnd without a horingGroupStart before it in this thread");
    if (--openGroup().depth > 0) return {};
    Group group = std::exchange(openGroup(), Group());
    if (!group.refused.ok()) {
      takeBackHandles(group.inits);
      return makeStatus(group.refused.code(),
                        "nothing of the group was launched, since it holds a call with an error: %s",
                        group.refused.message().c_str());
    }
    const Status made = group.inits.empty() ? Status() : initAll(group.inits);
    if (!made.ok() && made.code() != Code::kInProgress) return made;
    Status launched = group.commands.empty() ? Status() : launchAll(std::move(group.commands));
    closeWindows(group.to_close);
    return launched.ok() ? made : launched;
  });
}

horingResult_t horingGroupSimulateEnd(horingSimInfo_t* simInfo) {
  using namespace horing;
  return guarded(nullptr, [&] { return closeSimulated(simInfo, false, "horingGroupSimulateEnd").status(); });
}

horingResult_t horingGroupExplainEnd(horingSimInfo_t* simInfo, char* buffer, size_t length) {
  using namespace horing;
  return guarded(nullptr, [&]() -> Status {
    const Status has_room = copyText("", buffer, length);
    HORING_ASSIGN(const std::optional<Estimate> found,
                  closeSimulated(simInfo, has_room.ok(), "horingGroupExplainEnd"));
    return found && has_room.ok() ? copyText(found->bottleneck, buffer, length) : has_room;
  });
}

horingResult_t horingGroupDiscard(void) {
  using namespace horing;
  return guarded(nullptr, []() -> Status {
    if (!groupIsOpen())
      return makeStatus(Code::kInvalidUsage,
                        "horingGroupDiscard without a horingGroupStart before it in this thread");
    refuseGroup(makeStatus(Code::kInvalidUsage, "a part of it was given up (horingGroupDiscard)"));
    if (--openGroup().depth > 0) return {};
    takeBackHandles(openGroup().inits);
    openGroup() = Group();
    return {};
  });
}

}  // extern "C"
