#include "comm/queue/command_queue.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/no_memory.h"
#include "base/overloaded.h"
#include "base/pause.h"
#include "comm/gpu/default_streams.h"
#include "comm/gpu/gpu_windows.h"
#include "comm/queue/calls_beside.h"

namespace horing {

namespace {
// The queue that this thread serves, if any. A callback on that thread must not wait for operations, which may wait for the callback.
thread_local const CommandQueue* served_queue = nullptr;
constexpr std::chrono::milliseconds kTurnNap{1};
}  // namespace

bool CommandQueue::isOwnThread() const {
  return served_queue == this;
}

bool CommandQueue::isOnQueueThread() {
  return served_queue != nullptr;
}

CommandQueue::CommandQueue(Communicator& communicator)
    : communicator_(communicator), lists_(communicator), kernels_(KernelCalls::of(communicator)) {}

CommandQueue::~CommandQueue() {
  // A forked child has no GPU, nor may it free what its parent uses.
  if (membership_.isForkedChild()) {
    (void)kernels_.release();
    if (staged_) staged_->abandon();
  }
  thread_.end([this] {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  });
  // The communicator goes on between calls, while what follows may wait for a GPU.
  if (calls_beside_ && !membership_.isForkedChild()) communicator_.messages().dropSource();
}

Status CommandQueue::agreeAtOnce() {
  const Status agreed = kernels_ ? kernels_->agreeAtOnce() : Status();
  return agreed.ok() ? agreed : communicator_.breakOff(agreed);
}

Result<std::shared_ptr<const CudaDevice>> CommandQueue::open(const CudaDriver& driver, int device) const {
  if (const std::optional<int> bound = gpu(); bound && *bound != device)
    return makeStatus(Code::kInvalidUsage,
                      "rank %d: the communicator works on GPU %d since it was made or its first operation "
                      "there, and these buffers are on GPU %d: make a communicator for each",
                      membership_.rank(), *bound, device);
  if (staged_) return staged_->openedDevice();
  HORING_TRY(driver.api().status());
  return CudaDevice::open(driver.api().value(), device);
}

Status CommandQueue::bind(const std::shared_ptr<const CudaDevice>& device) {
  if (staged_) return {};
  HORING_ASSIGN(staged_, StagedCalls::create(device, communicator_));
  if (kernels_)
    kernels_->bind(device);
  else
    KernelCalls::warnOfNone(communicator_);
  return {};
}

void CommandQueue::moveInPlace(Command& command) const {
  for (Transfer& transfer : command.transfers())
    if (communicator_.reach().movesInPlace(transfer)) staged_->moveInPlace(transfer);
}

Status CommandQueue::carryOut(Command& command) {
  try {
    return tryToCarryOut(command);
  } catch (...) {
    return communicator_.breakOff(noMemory());
  }
}

Status CommandQueue::tryToCarryOut(Command& command) {
  if (!command.on_gpu || movesNothing(command)) return carryOutOnHost(command);
  const bool asks = kernels_ && command.taken == Taken::kUnasked;
  const Result<bool> taken = asks ? kernels_->begin(command) : Result<bool>(false);
  if (!taken.ok()) {
    // Messages without a matching counterpart were not begun.
    const bool sticks = !command.isExchange() || taken.status().code() != Code::kInvalidUsage;
    return sticks ? communicator_.breakOff(taken.status()) : taken.status();
  }
  Status status;
  if (!taken.value()) status = carryOutStaged(command);
  const Status finished = kernels_ ? kernels_->finish() : Status();
  if (!finished.ok()) return communicator_.breakOff(finished);
  return status;
}

Status CommandQueue::carryOutStaged(const Command& command) {
  Status status = staged_->run(
      command, [this](const Command& staged) { return carryOutOnHost(staged); }, communicator_.timeoutMs(),
      turns_abandoned_);
  // A GPU error, which the other ranks do not know of. Errors of the host were announced already.
  const bool is_of_gpu = status.code() == Code::kUnhandledCudaError || status.code() == Code::kTimeout;
  return is_of_gpu ? communicator_.breakOff(status) : status;
}

// A rank that could not take part tells the others.
Status CommandQueue::carryOutStaged(const Entry& entry) {
  const Deadline deadline =
      entry.arrival ? *entry.arrival : Deadline::after(clock_, communicator_.timeoutMs());
  Status status = withoutExceptions([&] {
    return staged_->carryOut(
        *entry.staged, [this](const Command& staged) { return carryOutOnHost(staged); }, deadline,
        turns_abandoned_);
  });
  return status.ok() ? status : communicator_.breakOff(status);
}

Status CommandQueue::carryOutOnHost(const Command& command) {
  return std::visit(
      Overloaded{
          [&](const CollectiveCommand& collective) { return communicator_.run(collective.call); },
          [&](const ListCommand& list) { return lists_.run(list); },
          [&](const ExchangeCommand& exchange) {
            return communicator_.messages().exchange(exchange.transfers);
          },
          [&](const TaskCommand& task) { return task.run(); },
      },
      command.work);
}

Status CommandQueue::run(Command& command) {
  if (!hasThread()) return carryOut(command);
  if (goesBeside(command) || hasMessagesUnderWay()) {
    // Does not wait for messages beside: they may wait for the caller's next call.
    Stream stream;
    Stream* const streams[] = {&stream};
    HORING_TRY(submit(std::move(command), streams));
    return stream.synchronize();
  }
  drain();
  return carryOut(command);
}

bool CommandQueue::hasMessagesUnderWay() {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.is_message; });
}

Status CommandQueue::startThread() {
  if (thread_.started()) return {};
  HORING_TRY(thread_.start("a communicator's operations", [this] { serve(); }));
  has_thread_.store(true, std::memory_order_release);
  return {};
}

bool CommandQueue::isFull() {
  if (!hasThread()) return false;
  const std::lock_guard lock(mutex_);
  return entries_.size() >= kMaxQueued;
}

Status CommandQueue::awaitRoom() {
  if (!hasThread() || served_queue) return {};
  std::unique_lock lock(mutex_);
  if (await(lock, [this] { return entries_.size() < kMaxQueued; })) return {};
  return makeStatus(
      Code::kTimeout,
      "rank %d: %zu operations are queued on the communicator and none of them ended within %lld "
      "ms (HORING_TIMEOUT_MS), so this one was not issued: is a callback waiting, or another "
      "operation on the same stream?",
      membership_.rank(), entries_.size(), static_cast<long long>(communicator_.timeoutMs()));
}

template <typename Condition>
bool CommandQueue::await(std::unique_lock<std::mutex>& lock, Condition condition) {
  const std::chrono::milliseconds limit(communicator_.timeoutMs());
  return changed_.wait_for(lock, limit, [&] { return turns_abandoned_ || condition(); });
}

Status CommandQueue::submit(Command command, std::span<Stream* const> streams) {
  std::vector<StreamTurn> turns;
  for (Stream* const stream : streams) turns.push_back({stream});
  std::unique_lock lock(mutex_);
  if (const Status started = startThread(); !started.ok()) {
    lock.unlock();
    return command.taken == Taken::kSome ? communicator_.breakOff(started) : started;
  }
  const bool is_message = goesBeside(command);
  if (is_message) HORING_TRY(startCallsBeside());
  entries_.push_back(
      {.command = std::move(command), .turns = std::move(turns), .staged = {}, .is_message = is_message});
  // Last: if memory ran out after taking a turn, the turn would block the stream for ever.
  Stream::enter(entries_.back().turns);
  noteNewEntry();
  return {};
}

// Under mutex_, before the first messages.
Status CommandQueue::startCallsBeside() {
  if (calls_beside_) return {};
  auto calls = std::make_unique<CallsBeside>(*this);
  HORING_TRY(calls->status());
  calls_beside_ = std::move(calls);
  communicator_.messages().setSource(*calls_beside_);
  return {};
}

// Under mutex_.
void CommandQueue::noteNewEntry() {
  waits_since_ns_ = 0;
  changed_.notify_all();
  if (calls_beside_) calls_beside_->notify();
  has_message_ = calls_beside_ != nullptr;
  wakeAwaiting();
}

// Under mutex_.
void CommandQueue::wakeAwaiting() {
  if (awaited_)
    for (const StreamTurn& each : awaited_->turns) each.stream->wake();
}

Status CommandQueue::submit(Command command, CudaStream stream) {
  if (isOneSided(command)) return enqueueOneSided(command, stream).status();
  HORING_ASSIGN(const bool taken, enqueue(command, {&stream, 1}));
  HORING_TRY(settle());
  return taken ? Status() : enqueueStaged(std::move(command), {&stream, 1});
}

Result<bool> CommandQueue::enqueue(Command& command, std::span<const CudaStream> streams) {
  HORING_TRY(asyncError());
  if (!kernels_) return false;
  HORING_TRY(awaitGpuOperationsOfThread());
  Result<bool> taken = kernels_->enqueue(command, streams);
  if (taken.ok() || taken.status().code() == Code::kInvalidUsage) return taken;
  return communicator_.breakOff(taken.status());
}

Status CommandQueue::meet() {
  HORING_TRY(asyncError());
  HORING_TRY(awaitGpuOperationsOfThread());
  const Status met = kernels_->meet();
  return met.ok() ? met : communicator_.breakOff(met);
}

Status CommandQueue::enqueueStaged(Command command, std::span<const CudaStream> streams) {
  const bool is_rest = command.taken == Taken::kSome;
  const Status enqueued = tryToEnqueueStaged(std::move(command), streams);
  if (!is_rest) return enqueued;
  // The other ranks depend on all of it.
  const Status followed = kernels_->follow();
  const Status& failed = enqueued.ok() ? followed : enqueued;
  return failed.ok() ? failed : communicator_.breakOff(failed);
}

Status CommandQueue::tryToEnqueueStaged(Command command, std::span<const CudaStream> streams) {
  HORING_TRY(asyncError());
  HORING_TRY(awaitGpuOperationsOfThread());
  {
    const std::lock_guard lock(mutex_);
    HORING_TRY(startThread());
  }
  // Before the stream waits for it: the thread must find the entry.
  std::list<Entry> entry(1);
  StagedOperation& operation = entry.front().staged.emplace();
  entry.front().cuda_streams.assign(streams.begin(), streams.end());
  // Without the lock: the driver may be slow, and only this thread adds entries.
  Status failed = withoutExceptions([&] { return staged_->enqueue(command, streams, operation); });
  if (failed.code() == Code::kInvalidUsage) return failed;
  operation.failed = failed;
  const std::lock_guard lock(mutex_);
  entries_.splice(entries_.end(), entry);
  noteNewEntry();
  return failed;
}

Status CommandQueue::enterStream(Command& command, CudaStream stream, bool waits) {
  // Again: in a group, recording may have begun since the call.
  if (isOneSided(command)) HORING_TRY(checkOneSided(stream));
  HORING_ASSIGN(command.stream_use, StreamUse::enter({membership_.id(), membership_.rank()},
                                                     *staged_->openedDevice(), stream, waits));
  return {};
}

Result<StreamMark> CommandQueue::enqueueOneSided(const Command& command, CudaStream stream,
                                                 const std::optional<StreamMark>& behind) {
  HORING_TRY(asyncError());
  {
    const std::lock_guard lock(mutex_);
    HORING_TRY(startThread());
    HORING_TRY(startCallsBeside());
  }
  const bool waits = command.stream_use && command.stream_use->waits();
  const auto add = [&, this](OneSidedPart&& part) -> Status {
    std::list<Entry> entry(1);
    entry.front().cuda_streams = {stream};
    entry.front().command = std::move(part.command);
    if (waits) entry.front().command.stream_use = command.stream_use;
    entry.front().is_message = true;
    entry.front().mark = part.mark;
    const std::lock_guard lock(mutex_);
    entries_.splice(entries_.end(), entry);
    noteNewEntry();
    return {};
  };
  Result<StreamMark> enqueued = staged_->oneSided().enqueue(command, stream, behind, add);
  // The other ranks depend on it.
  return enqueued.ok() ? std::move(enqueued) : communicator_.breakOff(enqueued.status());
}

Result<bool> CommandQueue::enqueueBlocking(Command& command) {
  if (!kernels_ || !command.on_gpu) return false;
  HORING_TRY(asyncError());
  HORING_TRY(awaitGpuOperationsOfThread());
  Result<bool> taken = kernels_->enqueueBlocking(command);
  if (taken.ok() || taken.status().code() == Code::kInvalidUsage) return taken;
  return communicator_.breakOff(taken.status());
}

Status CommandQueue::start() {
  if (!kernels_) return {};
  const Status started = kernels_->start();
  return started.ok() ? started : communicator_.breakOff(started);
}

Status CommandQueue::settle() {
  if (!kernels_) return {};
  const Status settled = kernels_->settle();
  return settled.ok() ? settled : communicator_.breakOff(settled);
}

Status CommandQueue::asyncError() {
  const Status ended = kernels_ ? kernels_->outcome() : Status();
  return ended.ok() ? communicator_.asyncError() : communicator_.breakOff(ended);
}

// Kernels must be launched in the order of the calls on every rank, and the ranks' agreements on kernels must be ordered with splits and
// shrinks. A GPU operation must also not overtake operations that the thread still has to enqueue on the same stream.
Status CommandQueue::awaitGpuOperationsOfThread() {
  if (!hasThread()) return {};
  std::unique_lock lock(mutex_);
  const auto none_left = [this] {
    return std::none_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
      return !entry.staged && (entry.command.on_gpu || entry.command.isTask());
    });
  };
  if (none_left()) return {};
  if (served_queue)
    return makeStatus(
        Code::kInvalidUsage,
        "rank %d: called in a callback while operations on the GPU that were issued on streams of "
        "horingStreamCreate are queued: it would have to wait for them, and they wait for the "
        "callback. Issue it on such a stream, too, or from a thread of the program",
        membership_.rank());
  if (!await(lock, none_left))
    return makeStatus(
        Code::kTimeout,
        "rank %d: operations on the GPU that were issued on streams of horingStreamCreate did not "
        "end within %lld ms (HORING_TIMEOUT_MS), so this one, which comes behind them, was not "
        "issued",
        membership_.rank(), static_cast<long long>(communicator_.timeoutMs()));
  if (none_left()) return {};
  return makeStatus(Code::kInvalidUsage, "rank %d: the communicator was aborted", membership_.rank());
}

Result<void*> CommandQueue::openWindow(std::byte* memory, size_t bytes,
                                       const std::shared_ptr<const CudaDevice>& device) {
  RegisteredWindows& windows = communicator_.windows();
  if (!device) return windows.open(memory, bytes);
  return windows.open(memory, bytes, [&](std::span<const uint64_t> sizes) -> Result<PartsOnGpus> {
    HORING_ASSIGN(const bool reach_all, kernels_->reachAll(device));
    if (!reach_all) return PartsOnGpus{};
    return openPartsOnGpus(communicator_, {device, memory, sizes}, [&]() -> Result<GpuWindows*> {
      HORING_TRY(bind(device));
      return &staged_->oneSided().windows();
    });
  });
}

void CommandQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return entries_.empty() && !(calls_beside_ && calls_beside_->isInside()); });
}

void CommandQueue::abandonTurns() {
  const std::lock_guard lock(mutex_);
  turns_abandoned_ = true;
  if (kernels_) kernels_->abort();
  wakeAwaiting();
  changed_.notify_all();
}

// The thread's loop: ends when told to and the queue is empty. An operation that is ready goes before messages, which progress beside it.
void CommandQueue::serve() {
  served_queue = this;
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !entries_.empty(); });
    if (entries_.empty()) return;
    // Stays valid while entries are appended.
    const auto other = nextOther();
    const bool has_other = other != entries_.end();
    const bool has_messages_under_way = calls_beside_ && calls_beside_->hasUnderWay();
    if (has_other && isTurnOf(*other)) {
      lock.unlock();
      serveOther(other);
    } else if (has_messages_under_way || nextMessageWhoseTurnItIs() != entries_.end()) {
      lock.unlock();
      calls_beside_->drive();
    } else if (nextMessage() != entries_.end() || other->staged) {
      awaitStreams(lock);
    } else {
      awaitTurnOf(*other, lock);
    }
  }
}

void CommandQueue::serveOther(Entries::iterator entry) {
  if (entry->staged) {
    // The error sticks to the communicator, since a CUDA stream cannot report it.
    [[maybe_unused]] const Status status = carryOutStaged(*entry);
    erase(entry);
    return;
  }
  const Status status = carryOut(entry->command);
  finish(entry, status);
}

// Returns early for a new message, which need not wait for the turn.
void CommandQueue::awaitTurnOf(const Entry& entry, std::unique_lock<std::mutex>& lock) {
  has_message_ = false;
  awaited_ = &entry;
  lock.unlock();
  for (const StreamTurn& each : entry.turns)
    each.stream->awaitTurn(each.turn, [this] { return turns_abandoned_ || has_message_; });
  lock.lock();
  awaited_ = nullptr;
}

// Naps, since neither streams of CUDA nor operations of other communicators notify this queue. A stream of CUDA has to come to an operation in
// time once none is before it.
void CommandQueue::awaitStreams(std::unique_lock<std::mutex>& lock) {
  const auto first = entries_.begin();
  if ((first->staged || first->mark) && isLate(*first)) {
    lock.unlock();
    if (first->staged) return serveOther(first);
    stream_was_late_ = true;
    return finish(first, communicator_.breakOff(staged_->lateStream()));
  }
  if (!awaitsGpu()) {
    changed_.wait_for(lock, kTurnNap);
    return;
  }
  const int64_t now_ns = clock_.nowNs();
  if (waits_since_ns_ == 0) waits_since_ns_ = now_ns;
  const int64_t waited_ns = now_ns - waits_since_ns_;
  if (waited_ns < kGpuYieldNs) {
    lock.unlock();
    ::sched_yield();
    lock.lock();
  } else {
    changed_.wait_for(lock, napAfter(waited_ns));
  }
}

bool CommandQueue::isLate(Entry& first) {
  if (!first.arrival) first.arrival = Deadline::after(clock_, communicator_.timeoutMs());
  return first.arrival->passed() || (first.mark && stream_was_late_);
}

// Not to one that is behind another on its stream.
bool CommandQueue::awaitsGpu() const {
  std::set<CudaStream> held;
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    bool is_held = false;
    for (const CudaStream stream : entry.cuda_streams) is_held |= !held.insert(stream).second;
    return !entry.cuda_streams.empty() && !is_held && entry.ticket == 0 && !isTurnOf(entry);
  });
}

// Under mutex_.
CommandQueue::Entries::iterator CommandQueue::nextMessage() {
  return std::find_if(entries_.begin(), entries_.end(),
                      [](const Entry& entry) { return entry.ticket == 0 && entry.is_message; });
}

CommandQueue::Entries::iterator CommandQueue::nextMessageWhoseTurnItIs() {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.ticket == 0 && entry.is_message && isTurnOf(entry);
  });
}

CommandQueue::Entries::iterator CommandQueue::nextOther() {
  return std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.is_message; });
}

bool CommandQueue::isTurnOf(const Entry& entry) const {
  if (entry.staged) return turns_abandoned_ || staged_->hasArrived(*entry.staged);
  if (entry.mark) return turns_abandoned_ || staged_->oneSided().hasArrived(*entry.mark);
  return turns_abandoned_ || std::all_of(entry.turns.begin(), entry.turns.end(), [](const StreamTurn& each) {
           return each.stream->isTurn(each.turn);
         });
}

// Called by the thread only: no other thread removes entries.
void CommandQueue::finish(Entries::iterator entry, const Status& status) {
  std::vector<StreamTurn> turns;
  {
    const std::lock_guard lock(mutex_);
    turns = std::exchange(entry->turns, {});  // the streams may be destroyed once their turns are finished
  }
  entry->command.stream_use = nullptr;  // before anyone sees that it is over
  if (entry->mark) staged_->oneSided().end(*entry->mark);
  // Before the queue is seen to be empty: after drain() the streams are idle.
  Stream::DueCallbacks due;
  for (const StreamTurn& each : turns) each.stream->finish(each.turn, status, due);
  erase(entry);
  due.call();
}

void CommandQueue::erase(Entries::iterator entry) {
  const std::lock_guard lock(mutex_);
  entries_.erase(entry);
  waits_since_ns_ = 0;
  changed_.notify_all();
}

}  // namespace horing
