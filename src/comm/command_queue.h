#pragma once
// The operations of one communicator, carried out one after the other in the order of their calls: at once by the
// caller, or later, when it is their turn on a stream, by a thread of the library.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/stream.h"

namespace horing {

// One collective, or a group of sends and receives. What its pointers name belongs to the caller, but for the tables.
struct Command {
  Collective collective = Collective::kAllReduce;
  Call call;
  std::vector<size_t> tables;       // what the call's blocks point into; moving keeps them, copying would not
  std::vector<Transfer> transfers;  // if any, this is all there is to do

  Command() = default;
  Command(Command&&) = default;
  Command& operator=(Command&&) = default;
};

// One thread at a time calls it; the communicator must outlive it.
class CommandQueue {
 public:
  static constexpr size_t kMaxQueued = 4096;

  explicit CommandQueue(Communicator& communicator) : communicator_(communicator) {}
  // Waits for what was submitted.
  ~CommandQueue();
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // Carries it out, after all that was submitted before.
  Status run(const Command& command);
  // To be carried out when it is its turn on the stream, which must outlive it. Blocks only while kMaxQueued are
  // waiting. Errors: no thread to be had; whatever happens later is the stream's to tell.
  Status submit(Command command, Stream& stream);
  // Waits until nothing is left of what was submitted.
  void drain();
  // Operations do not wait for their turn any more: for a communicator that was aborted, where they fail at once.
  void abandonTurns();

 private:
  struct Entry {
    Command command;
    Stream* stream;
    Stream::Turn turn;
  };
  Status carryOut(const Command& command);
  void serve();

  Communicator& communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;  // the first is being carried out
  bool stop_ = false;
  std::thread thread_;                   // from the first submit() on
  std::atomic<bool> has_thread_{false};  // spares run() the lock where nothing was ever submitted
  std::atomic<bool> turns_abandoned_{false};
};

}  // namespace horing
