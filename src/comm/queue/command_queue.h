#pragma once
// The operations of one communicator, carried out one at a time in the order of the calls: at once by the caller, or, for a stream, by a
// thread of the library when their turn comes.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/service_thread.h"
#include "comm/calls/command.h"
#include "comm/coalesced.h"
#include "comm/communicator.h"
#include "comm/gpu/kernel_calls.h"
#include "comm/gpu/staged_calls.h"
#include "comm/queue/stream.h"
#include "cuda/driver.h"

namespace horing {

// One thread at a time calls it; the communicator must outlive it.
class CommandQueue {
 public:
  static constexpr size_t kMaxQueued = 4096;

  explicit CommandQueue(Communicator& communicator);
  // Waits for all submitted commands.
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // Collective, once, before any command; see KernelCalls::agreeAtOnce(). Errors stick.
  Status agreeAtOnce();
  // Runs the command after all submitted commands.
  Status run(Command& command);
  // Call this before submit() or enqueue(), which do not check for room: in a group with operations of several ranks, each may wait for the
  // operations behind it. Blocks while kMaxQueued commands are queued, except in a callback on a queue's thread, which would wait for
  // itself; callbacks may exceed the limit. Error: no room within the timeout of a call.
  Status awaitRoom();
  bool isFull();
  // Whether anything was ever submitted, so that run() may have to wait.
  bool hasThread() const {
    return has_thread_.load(std::memory_order_acquire);
  }  // pairs with the release in submit()
  // Queues a command, which runs when its turn comes on all of these distinct streams, which must outlive it. Does not block. Error: the
  // thread could not be started; the streams report later errors. Messages that go beside others run concurrently with each other
  // and with other operations, as far as their streams allow.
  Status submit(Command command, std::span<Stream* const> streams);
  // The same on a CUDA stream, for buffers of the GPU that the queue is bound to. Later errors stick to the communicator.
  Status submit(Command command, CudaStream stream);
  // The same in steps, for the commands of a group, which may have to be launched together, and with commands of other ranks of the same
  // thread. Takes the part for kernels out of the command. False: the rest is for enqueueStaged(), after settle(); called earlier, it might
  // overtake the kernels on its stream. On several distinct streams the command is ordered after earlier work and before later work on
  // each.
  Result<bool> enqueue(Command& command, std::span<const CudaStream> streams);
  // Before enqueue() and enqueueBlocking(), see KernelCalls.
  bool mustMeet(const Command& command) { return kernels_ && kernels_->mustMeet(command); }
  Status meet();
  Status start();
  Status settle();
  Status enqueueStaged(Command command, std::span<const CudaStream> streams);
  // A command of a group that is complete when settle() returns. False: the rest must be submitted to a stream instead.
  Result<bool> enqueueBlocking(Command& command);
  // Before a one-sided operation on a CUDA stream, and before an operation on GPU memory that is not on one: enters the stream that the GPU's
  // part is on, in the second case the default one, null. `waits`: the stream waits for signals. kInvalidUsage: it cannot serve this rank now
  // (StreamUse), or records a graph.
  Status enterStream(Command& command, CudaStream stream, bool waits);
  // A one-sided operation on a CUDA stream, after enterStream(), which does not block; later errors stick to the communicator. It begins
  // behind the end of `behind`, too. Returns its mark. checkOneSided(): as enterStream(), of the stream alone.
  Status checkOneSided(CudaStream stream) const { return staged_->oneSided().check(stream); }
  Result<StreamMark> enqueueOneSided(const Command& command, CudaStream stream,
                                     const std::optional<StreamMark>& behind = std::nullopt);
  // Lets a CUDA stream of the GPU of bind() wait until the result goes, or the communicator does. Any thread. Errors: as checkOneSided(), and
  // of StreamHold::begin().
  Result<std::shared_ptr<const StreamHold>> hold(CudaStream stream) const {
    HORING_TRY(checkOneSided(stream));
    return staged_->oneSided().hold(stream);
  }
  // The sticky error of the communicator; checks for news from other ranks and from kernels. Any thread.
  Status asyncError();
  // The GPU of that number, for bind(). kInvalidUsage: the queue is bound to another GPU.
  Result<std::shared_ptr<const CudaDevice>> open(const CudaDriver& driver, int device) const;
  // Binds the queue to a GPU: from here on it accepts commands on the GPU's memory. May be repeated.
  Status bind(const std::shared_ptr<const CudaDevice>& device);
  // The GPU of bind(); nothing: no command on GPU memory yet.
  std::optional<int> gpuOfCommands() const {
    return staged_ ? std::optional(staged_->device()) : std::nullopt;
  }
  // The GPU of bind(), or of agreeAtOnce(); nothing: not bound yet.
  std::optional<int> gpu() const { return staged_ || !kernels_ ? gpuOfCommands() : kernels_->gpu(); }
  // As gpu(), if kernels of the communicator may wait for kernels of other ranks.
  std::optional<int> gpuOfKernels() const { return kernels_ ? gpu() : std::nullopt; }
  // Marks the transfers of a command on GPU memory that can move without staging in host memory.
  void moveInPlace(Command& command) const;
  // Whether the ranks may put into windows in memory of their GPUs.
  bool mayOpenGpuWindows() const { return kernels_ != nullptr; }
  // A window, as RegisteredWindows::open(). Collective, as a task of the queue. `device`: the memory is on it, and the queue is bound to it
  // if all ranks share theirs, its kernels as soon as they serve the communicator; null: of the host.
  Result<void*> openWindow(std::byte* memory, size_t bytes, const std::shared_ptr<const CudaDevice>& device);
  // See OneSidedCalls::closeUnusedWindows(). Does nothing on a queue's thread, for which streams wait.
  void closeUnusedWindows(const Deadline& deadline, bool awaits_others) {
    if (staged_ && !isOnQueueThread()) staged_->oneSided().closeUnusedWindows(deadline, awaits_others);
  }
  // Waits until all submitted commands are done.
  void drain();
  // Not while a command runs.
  uint64_t memoryBytes() const {
    return lists_.memoryBytes() + (staged_ ? staged_->memoryBytes() : 0) +
           (kernels_ ? kernels_->memoryBytes() : 0);
  }
  // Lets operations run without waiting for their turn, for an aborted communicator, where they fail at once.
  void abandonTurns();

 private:
  struct Entry {
    Command command;
    std::vector<StreamTurn> turns;          // empty when finished, and for CUDA streams
    std::optional<StagedOperation> staged;  // for CUDA streams, instead of `command`
    std::optional<StreamMark> mark{};       // for CUDA streams, with a one-sided `command`
    std::vector<CudaStream> cuda_streams{};
    // For CUDA streams, once no other entry is before this one: until when they have to have come there.
    std::optional<Deadline> arrival{};
    bool is_message = false;  // goesBeside(command), which its thread may be changing
    uint64_t ticket = 0;      // of messages beside, in flight
  };
  using Entries = std::list<Entry>;
  class CallsBeside;
  // If memory runs out, the communicator fails, since the other ranks may wait for the unfinished part.
  Status carryOut(Command& command);
  Status tryToCarryOut(Command& command);
  Status carryOutStaged(const Command& command);
  Status tryToEnqueueStaged(Command command, std::span<const CudaStream> streams);
  Status carryOutOnHost(const Command& command);
  Status carryOutStaged(const Entry& entry);
  // Under mutex_.
  Status startThread();
  Status startCallsBeside();
  void noteNewEntry();
  // Waits until `condition` holds, or turns are abandoned. False: the timeout of a call has passed.
  template <typename Condition>
  bool await(std::unique_lock<std::mutex>& lock, Condition condition);
  Status awaitGpuOperationsOfThread();
  bool isOwnThread() const;
  static bool isOnQueueThread();
  void serve();
  void serveOther(Entries::iterator entry);
  void awaitTurnOf(const Entry& entry, std::unique_lock<std::mutex>& lock);
  void awaitStreams(std::unique_lock<std::mutex>& lock);
  bool isLate(Entry& first);
  void wakeAwaiting();
  // The first entry of messages beside that is not in flight; the first entry of any other operation.
  Entries::iterator nextMessage();
  Entries::iterator nextMessageWhoseTurnItIs();
  Entries::iterator nextOther();
  bool isTurnOf(const Entry& entry) const;
  // Whether a CUDA stream may come to an entry at any moment.
  bool awaitsGpu() const;
  void finish(Entries::iterator entry, const Status& status);
  void erase(Entries::iterator entry);
  bool hasMessagesUnderWay();

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  CoalescedLists lists_;
  SteadyClock clock_;
  std::unique_ptr<StagedCalls> staged_;   // null until bound to a GPU
  std::unique_ptr<KernelCalls> kernels_;  // null where the communicator has no team of GPUs
  std::mutex mutex_;
  std::condition_variable changed_;
  // Messages beside in flight, the running entry and the waiting entries, in the order of the calls.
  Entries entries_;
  bool stop_ = false;
  const Entry* awaited_ = nullptr;             // the entry whose turn the thread awaits
  std::atomic<bool> has_message_{false};       // a message was added since
  std::unique_ptr<CallsBeside> calls_beside_;  // made for the first, under mutex_
  ServiceThread thread_;                       // from the first submit() on
  std::atomic<bool> has_thread_{false};        // spares run() the lock where nothing was ever submitted
  std::atomic<bool> turns_abandoned_{false};
  bool stream_was_late_ = false;  // of a mark; used by the thread only
  int64_t waits_since_ns_ =
      0;  // when awaitStreams() first found nothing to do since an entry came or ended; 0: it has not; under mutex_
};

}  // namespace horing
