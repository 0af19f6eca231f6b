#pragma once
// The operations of one communicator, carried out one after the other in the order of their calls: at once by the
// caller, or later, when it is their turn on a stream, by a thread of the library.
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
  // Waits for what was submitted.
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // Collective, once, before any command: as KernelCalls::agreeAtOnce(). Errors stick.
  Status agreeAtOnce();
  // Carries it out, after all that was submitted before.
  Status run(Command& command);
  // To be called before one or several calls of submit() or enqueue(), which do not look for room: of a group that has operations of
  // several ranks each may wait for those behind it. Blocks while kMaxQueued are waiting, but not in a callback on a thread of a queue,
  // which would wait for itself: from there they may become more. Error: no room before the deadline of a call.
  Status awaitRoom();
  bool isFull();
  // Whether something was ever submitted, so that run() may have to wait.
  bool hasThread() const {
    return has_thread_.load(std::memory_order_acquire);
  }  // pairs with the release in submit()
  // To be carried out when it is its turn on all these streams, which differ and must outlive it. Does not block. Error: no thread to be
  // had; whatever happens later is the streams' to tell.
  // Messages with tags are under way at the same time, and beside the other operations, as far as their streams allow.
  Status submit(Command command, std::span<Stream* const> streams);
  // The same on a stream of CUDA: for buffers of the GPU that the queue is bound to. What goes wrong later sticks to the
  // communicator.
  Status submit(Command command, CudaStream stream);
  // In steps for those of a group, since they may have to be launched together, and with those of other ranks of the same thread.
  // Takes out of the command what is for kernels. False: something is left for enqueueStaged(), once what they have taken is settled.
  // Before that it may come before it on its stream. On several streams, which differ, it is behind what is on each, and before what
  // comes there later.
  Result<bool> enqueue(Command& command, std::span<const CudaStream> streams);
  Status start();
  Status settle();
  Status enqueueStaged(Command command, std::span<const CudaStream> streams);
  // One of a group that is complete on return, of settle(). False: what is left of it is to be submitted to a stream instead.
  Result<bool> enqueueBlocking(Command& command);
  // The sticky error of the communicator, with news of others and of kernels. Any thread.
  Status asyncError();
  // The GPU of that number, for bind(). kInvalidUsage: it is bound to another one.
  Result<std::shared_ptr<const CudaDevice>> open(const CudaDriver& driver, int device) const;
  // From here on it may have commands on this GPU's memory. Any number of times.
  Status bind(const std::shared_ptr<const CudaDevice>& device);
  // Of bind(); nothing: there was no command on a GPU's memory yet.
  std::optional<int> gpuOfCommands() const {
    return staged_ ? std::optional(staged_->device()) : std::nullopt;
  }
  // That, or what all agreed on at once; nothing: it is not bound yet.
  std::optional<int> gpu() const { return staged_ || !kernels_ ? gpuOfCommands() : kernels_->gpu(); }
  // The same of one whose kernels wait for those of other ranks, unless hosts turn out to serve it.
  std::optional<int> gpuOfKernels() const { return kernels_ ? gpu() : std::nullopt; }
  // Has those transfers of a command on that GPU's memory done without the host's that can be.
  void moveInPlace(Command& command) const;
  // Waits until nothing is left of what was submitted.
  void drain();
  // Not while one is carried out.
  uint64_t memoryBytes() const {
    return lists_.memoryBytes() + (staged_ ? staged_->memoryBytes() : 0) +
           (kernels_ ? kernels_->memoryBytes() : 0);
  }
  // Operations do not wait for their turn any more: for a communicator that was aborted, where they fail at once.
  void abandonTurns();

 private:
  struct Entry {
    Command command;
    std::vector<StreamTurn> turns;          // none when they are finished, and for streams of CUDA
    std::optional<StagedOperation> staged;  // of streams of CUDA, instead of `command`
    uint64_t ticket = 0;                    // of messages with tags that are under way

    // Whether it is messages with tags, which go on beside the other operations.
    bool isMessage() const { return !staged && hasTagsOnly(command); }
  };
  using Entries = std::list<Entry>;
  class TaggedCalls;
  // Also where memory runs out on the way: then the communicator ends, since the other ranks may wait for what is left undone.
  Status carryOut(Command& command);
  Status tryToCarryOut(Command& command);
  Status carryOutStaged(const Command& command);
  Status tryToEnqueueStaged(Command command, std::span<const CudaStream> streams);
  Status carryOutOnHost(const Command& command);
  Status carryOutStaged(const StagedOperation& operation);
  // Under mutex_.
  Status startThread();
  // Waits until `condition` holds, or turns are abandoned. False: the time that a call may take has passed.
  template <typename Condition>
  bool await(std::unique_lock<std::mutex>& lock, Condition condition);
  Status awaitGpuOperationsOfThread();
  void serve();
  void serveOther(Entries::iterator entry);
  void awaitTurnOf(const Entry& entry, std::unique_lock<std::mutex>& lock);
  void wakeAwaiting();
  // The first of the messages with tags that are not under way, and of all else.
  Entries::iterator nextMessage();
  Entries::iterator nextMessageWhoseTurnItIs();
  Entries::iterator nextOther();
  bool isTurnOf(const Entry& entry) const;
  void finish(Entries::iterator entry, const Status& status);
  bool hasMessagesUnderWay();

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  CoalescedLists lists_;
  SteadyClock clock_;
  std::unique_ptr<StagedCalls> staged_;   // null until it is bound to a GPU
  std::unique_ptr<KernelCalls> kernels_;  // null where the communicator has no team of GPUs
  std::mutex mutex_;
  std::condition_variable changed_;
  Entries
      entries_;  // messages with tags that are under way, what is being carried out, and what waits, in the order of the calls
  bool stop_ = false;
  const Entry* awaited_ = nullptr;             // whose turn the thread awaits
  std::atomic<bool> has_message_{false};       // since then
  std::unique_ptr<TaggedCalls> tagged_calls_;  // once there were messages with tags; under mutex_ until then
  ServiceThread thread_;                       // from the first submit() on
  std::atomic<bool> has_thread_{false};        // spares run() the lock where nothing was ever submitted
  std::atomic<bool> turns_abandoned_{false};
};

}  // namespace horing
