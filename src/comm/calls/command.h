#pragma once
// A call of the API as a value: a collective, a list of collectives, sends and receives, or a task.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "cuda/api.h"
#include "engine/host/call.h"
#include "engine/host/transfer.h"

namespace horing {

class StreamUse;
struct Window;

// How much of a command GPU kernels have taken over. kUnasked: not decided yet.
enum class Taken : uint8_t { kUnasked, kNothing, kSome, kAll };

struct CollectiveCommand {
  Call call;
  // The call's blocks point into it: moving keeps the pointers valid, copying would not.
  std::vector<size_t> tables{};

  // Not defaulted: value-initialisation by a defaulted constructor would fill the struct with zeros first.
  CollectiveCommand() {}
  explicit CollectiveCommand(const Call& its_call, std::vector<size_t> its_tables = {})
      : call(its_call), tables(std::move(its_tables)) {}
};

// One call of a list.
struct ListEntry {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  size_t count = 0;  // as in CallSpec
};

struct ListCommand {
  Call shared;  // what the entries have in common: all but buffers and counts
  std::vector<ListEntry> entries;
};

// A group of sends and receives.
struct ExchangeCommand {
  std::vector<Transfer> transfers;
};

// Other work that must run in order with the communicator's operations.
struct TaskCommand {
  std::function<Status()> run;
};

// The caller owns the memory behind all pointers, except the tables. Moved, not copied.
struct Command {
  using Work = std::variant<CollectiveCommand, ListCommand, ExchangeCommand, TaskCommand>;
  Work work;
  // The buffers are on the GPU that the queue is bound to (CommandQueue::bind), which alone can access them.
  bool on_gpu = false;
  std::vector<const void*> pinned{};  // buffers in pinned host memory, which the GPU can access, too
  Taken taken = Taken::kUnasked;      // the host engine runs the rest
  // Of CommandQueue::enterStream(); null: none, or over.
  std::shared_ptr<const StreamUse> stream_use{};
  // Of a put into a window in memory of GPUs: where this rank's GPU writes. Null: the peer writes.
  std::byte* put_at = nullptr;
  std::shared_ptr<const Window> window{};  // then

  Command() = default;
  explicit Command(Work its_work) : work(std::move(its_work)) {}
  Command(Command&&) = default;
  Command& operator=(Command&&) = default;

  // The collective, or the call that the entries of a list share; null: neither.
  Call* call();
  const Call* call() const { return const_cast<Command*>(this)->call(); }
  // Empty unless the command is a list.
  std::span<const ListEntry> entries() const;
  // Empty unless the command is an exchange.
  std::span<Transfer> transfers();
  std::span<const Transfer> transfers() const { return const_cast<Command*>(this)->transfers(); }
  bool isExchange() const { return std::holds_alternative<ExchangeCommand>(work); }
  bool isTask() const { return std::holds_alternative<TaskCommand>(work); }
};

// A buffer that a rank reads or writes for a command.
struct CommandBuffer {
  const char* name;  // of include/horing/horing.h
  const void* at;
};
// The buffers of this rank: one if the call is in place; without empty buffers, and without those that only the root has.
std::vector<CommandBuffer> buffersOf(const Command& command, int rank);
// Whether some data is in memory that only a GPU can access, and moves by a copier or in place (comm/gpu/staged_pieces.h).
bool hasCopier(const Command& command);
// Whether the command consists only of messages that progress beside other operations (Transfer::goesBeside), all in host memory.
bool goesBeside(const Command& command);
// Whether the command is puts and signals, or waits for signals.
bool isOneSided(const Command& command);
// Of a one-sided command: whether it is the latter.
bool waitsForSignals(const Command& command);
// Whether the command moves nothing on any rank; then the other ranks need not make the call.
bool movesNothing(const Command& command);

}  // namespace horing
