#pragma once
// What a call of the API asks a communicator for.
#include <cstddef>
#include <functional>
#include <vector>

#include "comm/coalesced.h"
#include "cuda/api.h"
#include "engine/host/operation.h"
#include "engine/host/point_to_point.h"

namespace horing {

// What kernels have taken out of a command.
enum class Taken : uint8_t { kUnasked, kNothing, kSome, kAll };

// One collective, a list of them, a group of sends and receives, or a task. What its pointers name belongs to the caller, but for the
// tables.
struct Command {
  Collective collective = Collective::kAllReduce;
  Call call;
  std::vector<size_t> tables;       // what the call's blocks point into; moving keeps them, copying would not
  std::vector<ListEntry> list;      // if any, of these buffers and counts instead of the call's
  std::vector<Transfer> transfers;  // if any, this is all there is to do
  std::function<Status()> task;     // if any, this: what else must wait for its turn with the communicator
  // Its buffers are ones that only a GPU reaches: of the GPU that the queue is bound to (CommandQueue::bind).
  bool on_gpu = false;
  // Then: `call.factor_at` is in memory of the host, which is pinned.
  bool host_has_factor = false;
  Taken taken = Taken::kUnasked;  // the rest is for hosts

  Command() = default;
  Command(Command&&) = default;
  Command& operator=(Command&&) = default;
};

// A buffer that a rank reads or writes for a command.
struct CommandBuffer {
  const char* name;  // of include/horing/horing.h
  const void* at;
};
// All of them: one where the output is the input; none that is empty, or that only the root has.
std::vector<CommandBuffer> buffersOf(const Command& command, int rank);
// Whether something of it is in memory that only a GPU reaches and goes without being staged (comm/gpu/staged_pieces.h).
bool hasCopier(const Command& command);
// Whether it is messages with tags, all of them between memory of hosts.
bool hasTagsOnly(const Command& command);
// On no rank: the others need not make the call.
bool movesNothing(const Command& command);

}  // namespace horing
