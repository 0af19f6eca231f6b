#pragma once
// What a call of the API asks a communicator for.
#include <cstddef>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "cuda/api.h"
#include "engine/host/call.h"
#include "engine/host/transfer.h"

namespace horing {

// What kernels have taken out of a command.
enum class Taken : uint8_t { kUnasked, kNothing, kSome, kAll };

struct CollectiveCommand {
  Call call;
  std::vector<size_t> tables{};  // what the call's blocks point into; moving keeps them, copying would not

  // Written out, since it would be filled with zeros first by one that the compiler makes.
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

// What else must wait for its turn with the communicator.
struct TaskCommand {
  std::function<Status()> run;
};

// What its pointers name belongs to the caller, but for the tables. Moved, not copied.
struct Command {
  using Work = std::variant<CollectiveCommand, ListCommand, ExchangeCommand, TaskCommand>;
  Work work;
  // Its buffers are ones that only a GPU reaches: of the GPU that the queue is bound to (CommandQueue::bind).
  bool on_gpu = false;
  std::vector<const void*> pinned{};  // those in host memory that the GPU reaches as well
  Taken taken = Taken::kUnasked;      // the rest is for hosts

  Command() = default;
  explicit Command(Work its_work) : work(std::move(its_work)) {}
  Command(Command&&) = default;
  Command& operator=(Command&&) = default;

  // A collective, or what the entries of a list share; null: it is something else.
  Call* call();
  const Call* call() const { return const_cast<Command*>(this)->call(); }
  // Empty: it is no list.
  std::span<const ListEntry> entries() const;
  // Empty: it is no exchange.
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
// All buffers: one if the output is the input; none that is empty, or that only the root has.
std::vector<CommandBuffer> buffersOf(const Command& command, int rank);
// Whether something of it is in memory that only a GPU reaches and goes without being staged (comm/gpu/staged_pieces.h).
bool hasCopier(const Command& command);
// Whether it is messages with tags, all between host memory.
bool hasTagsOnly(const Command& command);
// On any rank: the other ranks need not make the call.
bool movesNothing(const Command& command);

}  // namespace horing
